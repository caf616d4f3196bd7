package inproc

import (
	"context"
	"pawl.dev/services/stack"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// buffered is how many messages a sender may be ahead of the receiver, in each direction.
const buffered = 8

// call is one stream, seen from neither side.
type call struct {
	method    *method
	requests  chan parcel // closed by CloseSend
	responses chan parcel // never closed; done says when no more come
	shares    atomic.Bool // the handler; set before it sends anything

	headerOnce sync.Once
	headerSent chan struct{} // header is not written after this is closed
	done       chan struct{} // err and trailer are not written after this is closed

	mu      sync.Mutex // guards header and trailer until then
	header  metadata.MD
	trailer metadata.MD
	err     error // a status; nil: OK
}

// parcel is a message on its way.
type parcel struct {
	msg proto.Message
	// shared messages have other readers and are never changed; the receiver owns all others.
	shared bool
}

// pack makes ready a message for the other side.
func pack(m any, shared bool) (p parcel, err error) {
	p.shared = shared
	if shared {
		p.msg, err = message(m)
	} else {
		p.msg, err = clone(m)
	}
	return p, err
}

func (p parcel) moveTo(dst any, s *shapes) error {
	if p.shared {
		return s.shareTo(dst, p.msg)
	}
	return moveTo(dst, p.msg)
}

func (c *Conn) newStream(ctx context.Context, desc *grpc.StreamDesc, name string, creds credentials.PerRPCCredentials, opts []grpc.CallOption) (grpc.ClientStream, error) {
	o := readOptions(creds, opts)
	ctx, tellEnd := c.startClient(ctx, name, desc.ClientStreams, desc.ServerStreams)
	m, md, err := c.prepare(ctx, name, &o)
	if err != nil {
		tellEnd(err)
		o.finish(err)
		return nil, err
	}
	s := &call{
		method:   m,
		requests: make(chan parcel, buffered), responses: make(chan parcel, buffered),
		headerSent: make(chan struct{}), done: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(ctx)
	cs := &clientStream{call: s, ctx: ctx, cancel: cancel, desc: desc, options: o, tellEnd: tellEnd}
	if c.client != nil || len(o.onFinish) > 0 {
		// A client that only cancels, and never receives again, has ended the call too.
		cs.keepRelease = context.AfterFunc(ctx, cs.release)
	}
	go func() {
		stack.Reserve()
		c.serve(ctx, md, s)
	}()
	return cs, nil
}

func (c *Conn) prepare(ctx context.Context, name string, o *callOptions) (*method, metadata.MD, error) {
	if ctx.Err() != nil {
		return nil, nil, ended(ctx)
	}
	m, err := c.find(name, true)
	if err != nil {
		return nil, nil, err
	}
	md, err := o.incoming(ctx, name)
	return m, md, err
}

// serve runs the handler. It ends when the handler returns, which its context tells it to do when the client gives up.
func (c *Conn) serve(client context.Context, md metadata.MD, s *call) {
	ctx, cancel := serverContext(client, md)
	defer cancel()
	ctx, tellEnd := c.startServer(ctx, s.method.name, s.method.stream.ClientStreams, s.method.stream.ServerStreams)
	ss := &serverStream{call: s}
	ss.ctx = grpc.NewContextWithServerTransportStream(ctx, (*streamTransport)(ss))
	var err error
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit
			err = failed(s.method.name, recover())
		}
		s.finish(err)
		tellEnd(err)
	}()
	err = c.handle(ss, s.method)
	returned = true
}

func (c *Conn) handle(ss *serverStream, m *method) error {
	if c.stream == nil {
		return m.stream.Handler(m.impl, ss)
	}
	info := &grpc.StreamServerInfo{
		FullMethod: m.name, IsClientStream: m.stream.ClientStreams, IsServerStream: m.stream.ServerStreams,
	}
	return c.stream(m.impl, ss, info, m.stream.Handler)
}

// finish publishes how the call ended. Messages that were sent before stay to be received.
func (s *call) finish(err error) {
	s.sendHeader()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = statusOf(err)
	close(s.done)
}

func (s *call) sendHeader() {
	s.headerOnce.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.headerSent)
	})
}

func (s *call) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
