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

// authority is what calls are addressed to: this machine, by definition. The receiver gets copies of it.
var authority = []string{"localhost"}

// thisProcess is the peer on both sides.
var thisProcess = peer.Peer{Addr: &net.UnixAddr{Name: "inproc", Net: "inproc"}}

// readOptions answers those of gRPC's call options that clients use here, and reports whether Sharing is among them.
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
		return nil, nil, ended(ctx)
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

// transport is the state of a call, without its messages, that both sides share. grpc.SetHeader and SendHeader use it.
type transport struct {
	method *method
	shares atomic.Bool // the handler called Share

	mu         sync.Mutex // guards the following
	header     metadata.MD
	headerSent chan struct{} // closed when the header is sent, which is not written afterwards; nil: it is dropped, as that of a unary call
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

// SetTrailer drops the trailer, because no client asks for one.
func (*transport) SetTrailer(metadata.MD) error { return nil }

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

var errNoReturn = status.Error(codes.Internal, "inproc: the handler ended without returning")

// serve runs a handler in the server's context of a call, and passes how it ended to finish, also if it panics or ends its goroutine.
func (s *server) serve(client context.Context, md metadata.MD, t *transport, handle func(context.Context) error, finish func(error)) {
	ctx, cancel := serverContext(client, md)
	ctx, tellEnd := start(ctx, s.serverStats, t.method.name, false, t.method.stream)
	err := errNoReturn // as after runtime.Goexit
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(codes.Internal, "the handler of %s panicked: %v", t.method.name, p)
		}
		tellEnd(err)
		finish(err)
		cancel()
	}()
	err = handle(grpc.NewContextWithServerTransportStream(ctx, t))
}

// endOnly passes on the end and the deadline of a client's context, and none of its values.
type endOnly struct{ context.Context }

func (endOnly) Value(any) any { return nil }

// AfterFunc spares the context package a goroutine per derived context.
func (e endOnly) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(e.Context, f) }

// serverContext is the context of a handler. Cancel it when the handler has returned.
func serverContext(client context.Context, md metadata.MD) (context.Context, context.CancelFunc) {
	base := context.Background()
	if client.Done() != nil {
		base = endOnly{client}
	}
	ctx, cancel := context.WithCancel(base)
	return peer.NewContext(metadata.NewIncomingContext(ctx, md), &thisProcess), cancel
}

// start reports the begin of a call to a stats handler, if any, and returns a function that reports the end, once: with an error, or with
// nil or io.EOF. A unary call has no stream.
func start(ctx context.Context, h stats.Handler, name string, client bool, stream *grpc.StreamDesc) (context.Context, func(error)) {
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
			if err == io.EOF { //nolint:errorlint // as it is: a handler may wrap another
				err = nil
			}
			h.HandleRPC(ctx, &stats.End{Client: client, BeginTime: begin.BeginTime, EndTime: time.Now(), Error: statusOf(err)})
		})
	}
}

// statusOf makes the error that a client gets: a status as the wire would have made it, not the server's own value with
// its causes.
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

// ended is the error of a call whose client's context is done.
func ended(ctx context.Context) error {
	return status.FromContextError(ctx.Err()).Err()
}

// Invoke implements grpc.ClientConnInterface.
func (c *Conn) Invoke(ctx context.Context, name string, args, reply any, opts ...grpc.CallOption) (err error) {
	readOptions(opts)
	ctx, tellEnd := start(ctx, c.clientStats, name, true, nil)
	defer func() { tellEnd(err) }()
	m, md, err := c.prepare(ctx, name, false)
	if err != nil {
		return err
	}
	call := &unaryCall{transport: transport{method: m}, server: c.server, args: args, done: make(chan struct{})}
	if ctx.Done() == nil { // the wait cannot be cancelled, so no goroutine is needed
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
			return ended(ctx)
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
		return handTo(reply, resp)
	}
	return copyTo(reply, resp)
}

// unaryCall is one running call.
type unaryCall struct {
	transport
	server *server

	args      any  // mu is held while it is read, so that a client that gives up gets it back
	abandoned bool // the client has given up

	done chan struct{}
	resp any // the server's until done is closed, like err
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
