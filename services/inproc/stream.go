package inproc

import (
	"cmp"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"pawl.dev/services/stack"
)

// bufferSize is how many messages a sender may be ahead of the receiver, in each direction.
const bufferSize = 8

// streamCall is the state that both sides of a stream share.
type streamCall struct {
	transport
	requests chan proto.Message // closed by CloseSend
	done     chan struct{}      // closed after the last response was sent and err was set
	err      error              // a status, or io.EOF
}

// response is a message of the server, or a channel that the client closes when it asks for the next message.
type response struct {
	message proto.Message
	asked   chan struct{} // of Flush; else nil
}

// Flush waits until the client of this stream asks for another message after those that were sent, so that the handler can count their memory as
// freed. It also ends with the call. Over a network it returns at once.
func Flush(ctx context.Context) error {
	t, ok := grpc.ServerTransportStreamFromContext(ctx).(*transport)
	if !ok || t.responses == nil {
		return nil
	}
	asked := make(chan struct{})
	select {
	case t.responses <- response{asked: asked}:
	case <-ctx.Done():
		return contextError(ctx)
	}
	select {
	case <-asked:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// NewStream implements grpc.ClientConnInterface.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, name string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !desc.ServerStreams {
		return nil, status.Errorf(codes.Unimplemented, "inproc: %s streams only requests, which is not supported", name)
	}
	ctx, reportEnd := reportBegin(ctx, c.clientStats, name, true, desc)
	m, md, err := c.prepare(ctx, name, true)
	if err != nil {
		reportEnd(err)
		return nil, err
	}
	call := &streamCall{
		transport: transport{method: m, headerSent: make(chan struct{}), responses: make(chan response, bufferSize)},
		requests:  make(chan proto.Message, bufferSize), done: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(ctx)
	if c.clientStats != nil {
		// A client that cancels and never receives again has ended the call too.
		context.AfterFunc(ctx, func() { reportEnd(contextError(ctx)) })
	}
	go func() {
		stack.Reserve()
		ss := &serverStream{streamCall: call, server: c.server}
		c.serve(ctx, md, &call.transport, ss.handle, call.finish)
	}()
	return &clientStream{streamCall: call, ctx: ctx, cancel: cancel, desc: desc, sharing: readOptions(opts), reportEnd: reportEnd}, nil
}

// finish publishes the error of the call, or io.EOF. Messages sent before can still be received.
func (s *streamCall) finish(err error) {
	s.sendHeader()
	s.err = cmp.Or(statusOf(err), io.EOF)
	close(s.done)
}

// clientStream implements grpc.ClientStream. As with gRPC, one goroutine may send and another receive.
type clientStream struct {
	*streamCall
	ctx       context.Context
	cancel    context.CancelFunc
	desc      *grpc.StreamDesc
	sharing   bool // the client uses Sharing
	reportEnd func(error)

	sendClosed bool  // used only by the sending goroutine
	result     error // used only by the receiving goroutine: RecvMsg's final error
}

func (s *clientStream) Context() context.Context { return s.ctx }

func (s *clientStream) Header() (metadata.MD, error) {
	select {
	case <-s.headerSent:
	case <-s.ctx.Done():
		if !isClosed(s.done) {
			return nil, contextError(s.ctx)
		}
	}
	return s.header, nil
}

func (s *clientStream) Trailer() metadata.MD { return nil }

func (s *clientStream) CloseSend() error {
	if !s.sendClosed {
		s.sendClosed = true
		close(s.requests)
	}
	return nil
}

// SendMsg returns io.EOF after the call has ended, or nil if the method takes one request; RecvMsg returns the reason.
func (s *clientStream) SendMsg(m any) error {
	if s.sendClosed {
		return status.Error(codes.Internal, "inproc: SendMsg after CloseSend")
	}
	msg, err := sendable(m, s.sharing && s.shares.Load())
	if err == nil {
		err = s.send(msg)
	}
	switch {
	case s.desc.ClientStreams:
		return err
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return s.CloseSend()
}

func (s *clientStream) send(m proto.Message) error {
	if s.ctx.Err() != nil || isClosed(s.done) {
		return io.EOF
	}
	select {
	case s.requests <- m:
		return nil
	case <-s.done:
		return io.EOF
	case <-s.ctx.Done():
		return io.EOF
	}
}

func (s *clientStream) RecvMsg(m any) error {
	if s.result != nil {
		return s.result
	}
	if s.result = s.receive(m); s.result != nil {
		s.reportEnd(s.result)
		s.cancel()
	}
	return s.result
}

// receive waits for one message or the end of the call.
func (s *clientStream) receive(m any) error {
	for {
		r, err := s.next()
		if err != nil {
			return err
		}
		if r.asked == nil {
			return shallowCopyTo(m, r.message)
		}
		close(r.asked)
	}
}

func (s *clientStream) next() (response, error) {
	if s.ctx.Err() != nil {
		return response{}, contextError(s.ctx)
	}
	select {
	case r := <-s.responses:
		return r, nil
	case <-s.ctx.Done():
		return response{}, contextError(s.ctx)
	case <-s.done:
	}
	select { // a message that was sent before the end
	case r := <-s.responses:
		return r, nil
	default:
	}
	return response{}, s.err
}

// serverStream implements grpc.ServerStream.
type serverStream struct {
	*streamCall
	server *server
	ctx    context.Context
}

func (s *serverStream) handle(ctx context.Context) error {
	s.ctx = ctx
	m := s.method
	if s.server.stream == nil {
		return m.stream.Handler(m.impl, s)
	}
	info := &grpc.StreamServerInfo{FullMethod: m.name, IsClientStream: m.stream.ClientStreams, IsServerStream: m.stream.ServerStreams}
	return s.server.stream(m.impl, s, info, m.stream.Handler)
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) SetTrailer(metadata.MD) {}

func (s *serverStream) SendMsg(m any) error {
	if s.ctx.Err() != nil {
		return contextError(s.ctx)
	}
	r, err := sendable(m, s.shares.Load())
	if err != nil {
		return err
	}
	s.sendHeader()
	select {
	case s.responses <- response{message: r}:
		return nil
	case <-s.ctx.Done():
		return contextError(s.ctx)
	}
}

func (s *serverStream) RecvMsg(m any) error {
	if s.ctx.Err() != nil {
		return contextError(s.ctx)
	}
	select {
	case msg, open := <-s.requests:
		if !open {
			return io.EOF
		}
		return shallowCopyTo(m, msg)
	case <-s.ctx.Done():
		return contextError(s.ctx)
	}
}
