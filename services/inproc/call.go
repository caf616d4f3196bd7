package inproc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"pawl.dev/services/stack"
)

// authority is the `:authority` of all calls. Receivers get copies of it.
var authority = []string{"localhost"}

// thisProcess is the peer on both sides.
var thisProcess = peer.Peer{Addr: &net.UnixAddr{Name: "inproc", Net: "inproc"}}

// readOptions applies the call options that Pawl's clients use, and reports whether Sharing is among them.
func readOptions(opts []grpc.CallOption) (shares bool) {
	for _, opt := range opts {
		switch opt := opt.(type) {
		case grpc.PeerCallOption:
			*opt.PeerAddr = thisProcess
		case sharing:
			shares = true
		}
	}
	return shares
}

// prepare returns the method of a call, and the metadata that the server receives.
func (c *Conn) prepare(ctx context.Context, name string, stream bool) (*method, metadata.MD, error) {
	if ctx.Err() != nil {
		return nil, nil, contextError(ctx)
	}
	m, err := c.find(name, stream)
	if err != nil {
		return nil, nil, err
	}
	md, ok := metadata.FromOutgoingContext(ctx) // a copy
	if !ok {
		md = metadata.MD{}
	}
	if c.authorization != nil {
		md["authorization"] = append(md["authorization"], c.authorization...)
	}
	md[":authority"] = authority
	return m, md, nil
}

// transport is the state of a call, except its messages, that both sides share. It implements grpc.ServerTransportStream.
type transport struct {
	method *method
	shares atomic.Bool // the handler called Share
	// responses are the messages of the server of a stream; nil in a unary call. The channel is never closed.
	responses chan response
	cancel    context.CancelFunc // ends the handler's context

	mu         sync.Mutex // guards the following
	header     metadata.MD
	headerSent chan struct{} // closed when header is sent and no longer written; nil in a unary call, whose header is dropped
}

var errHeaderSent = errors.New("inproc: the header was sent already")

func (t *transport) Method() string { return t.method.name }

func (t *transport) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if isClosed(t.headerSent) {
		return errHeaderSent
	}
	t.header = metadata.Join(t.header, md)
	return nil
}

func (t *transport) SendHeader(md metadata.MD) error {
	if err := t.SetHeader(md); err != nil {
		return err
	}
	t.sendHeader()
	return nil
}

func (t *transport) sendHeader() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.headerSent != nil && !isClosed(t.headerSent) {
		close(t.headerSent)
	}
}

// SetTrailer drops the trailer, because no client reads it.
func (*transport) SetTrailer(metadata.MD) error { return nil }

// WriteStatus ends the handler's context. The interceptor that calls it returns the status.
func (t *transport) WriteStatus(*status.Status) error {
	t.cancel()
	return nil
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

var errNoReturn = status.Error(codes.Internal, "inproc: the handler ended without returning")

// serve runs the handler of a call and passes its error to finish, even if the handler panics or calls runtime.Goexit.
func (s *server) serve(client context.Context, md metadata.MD, t *transport, handle func(context.Context) error, finish func(error)) {
	ctx, cancel := serverContext(client, md)
	t.cancel = cancel
	ctx, reportEnd := reportBegin(ctx, s.serverStats, t.method.name, false, t.method.stream)
	err := errNoReturn // stays if the handler calls runtime.Goexit
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(codes.Internal, "the handler of %s panicked: %v", t.method.name, p)
		}
		reportEnd(err)
		finish(err)
		cancel()
	}()
	err = handle(grpc.NewContextWithServerTransportStream(ctx, t))
}

// endOnly has the deadline and the cancellation of the client's context, but none of its values.
type endOnly struct{ context.Context }

func (endOnly) Value(any) any { return nil }

// AfterFunc saves the context package a goroutine per derived context.
func (e endOnly) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(e.Context, f) }

// serverContext returns the context of a handler. Cancel it when the handler has returned.
func serverContext(client context.Context, md metadata.MD) (context.Context, context.CancelFunc) {
	base := context.Background()
	if client.Done() != nil {
		base = endOnly{client}
	}
	ctx, cancel := context.WithCancel(base)
	return peer.NewContext(metadata.NewIncomingContext(ctx, md), &thisProcess), cancel
}

// reportBegin tells a stats handler, if any, that a call begins. The returned function reports the end, once; nil and io.EOF mean
// success. For a unary call, stream is nil.
func reportBegin(ctx context.Context, h stats.Handler, name string, client bool, stream *grpc.StreamDesc) (context.Context, func(error)) {
	if h == nil {
		return ctx, func(error) {}
	}
	ctx = h.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: name})
	begin := &stats.Begin{Client: client, BeginTime: time.Now()}
	if stream != nil {
		begin.IsClientStream, begin.IsServerStream = stream.ClientStreams, stream.ServerStreams
	}
	h.HandleRPC(ctx, begin)
	var once sync.Once
	return ctx, func(err error) {
		once.Do(func() {
			if err == io.EOF { //nolint:errorlint // not wrapped: a handler's error may wrap an io.EOF of its own
				err = nil
			}
			h.HandleRPC(ctx, &stats.End{Client: client, BeginTime: begin.BeginTime, EndTime: time.Now(), Error: statusOf(err)})
		})
	}
}

// statusOf returns the error that the client gets: only the status, as over a network, without the server's error value and its causes.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	return status.FromProto(st.Proto()).Err()
}

// contextError returns the error of a call whose context is done.
func contextError(ctx context.Context) error {
	return status.FromContextError(ctx.Err()).Err()
}

// Invoke implements grpc.ClientConnInterface.
func (c *Conn) Invoke(ctx context.Context, name string, args, reply any, opts ...grpc.CallOption) (err error) {
	readOptions(opts)
	ctx, reportEnd := reportBegin(ctx, c.clientStats, name, true, nil)
	defer func() { reportEnd(err) }()
	m, md, err := c.prepare(ctx, name, false)
	if err != nil {
		return err
	}
	call := &unaryCall{transport: transport{method: m}, server: c.server, args: args, done: make(chan struct{})}
	if ctx.Done() == nil { // the client cannot cancel, so no goroutine is needed
		c.serve(ctx, md, &call.transport, call.handle, call.finish)
	} else {
		go func() {
			stack.Reserve()
			c.serve(ctx, md, &call.transport, call.handle, call.finish)
		}()
		select {
		case <-call.done:
		case <-ctx.Done():
			call.abandon()
			return contextError(ctx)
		}
	}
	if call.err != nil {
		return statusOf(call.err)
	}
	resp, err := sendable(call.resp, true)
	if err != nil {
		return err
	}
	if call.shares.Load() {
		return shallowCopyTo(reply, resp)
	}
	return copyTo(reply, resp)
}

// unaryCall is the state of a running unary call.
type unaryCall struct {
	transport
	server *server

	args      any  // read under mu while abandoned is false; afterwards the client may reuse them
	abandoned bool // the client has given up

	done chan struct{}
	resp any // written by the server, like err, before done is closed
	err  error
}

func (u *unaryCall) handle(ctx context.Context) (err error) {
	u.resp, err = u.method.unary.Handler(u.method.impl, ctx, u.decode, u.server.unary)
	return err
}

func (u *unaryCall) finish(err error) {
	u.err = err
	close(u.done)
}

func (u *unaryCall) decode(into any) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.abandoned {
		return status.Error(codes.Canceled, "the client gave up before the call began")
	}
	args, err := sendable(u.args, true)
	if err != nil {
		return err
	}
	return copyTo(into, args)
}

func (u *unaryCall) abandon() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.abandoned = true
}
