package inproc

import (
	"context"
	"fmt"
	"pawl.dev/services/stack"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func (c *Conn) invoke(ctx context.Context, name string, args, reply any, creds credentials.PerRPCCredentials, opts []grpc.CallOption) (err error) {
	o := readOptions(creds, opts)
	ctx, done := c.startClient(ctx, name, false, false)
	defer func() {
		done(err)
		o.finish(err)
	}()
	if ctx.Err() != nil {
		return ended(ctx)
	}
	m, err := c.find(name, false)
	if err != nil {
		return err
	}
	md, err := o.incoming(ctx, name)
	if err != nil {
		return err
	}
	call := &unaryCall{conn: c, method: m, args: args, done: make(chan struct{})}
	if ctx.Done() == nil {
		call.run(ctx, md) // the wait cannot be cancelled, so no goroutine is needed
	} else {
		go func() {
			stack.Reserve()
			call.run(ctx, md)
		}()
		select {
		case <-call.done:
		case <-ctx.Done():
			call.abandon()
			return ended(ctx)
		}
	}
	call.report(&o)
	if call.err != nil {
		return statusOf(call.err)
	}
	if call.shares.Load() {
		return m.responses.shareTo(reply, call.resp)
	}
	return copyTo(reply, call.resp)
}

// unaryCall is one running call.
type unaryCall struct {
	conn   *Conn
	method *method
	done   chan struct{}
	shares atomic.Bool // the handler

	mu              sync.Mutex // guards the following; held while args is read, so that a client that gives up gets it back
	args            any
	abandoned       bool // the client has given up
	header, trailer metadata.MD

	resp any // the server's until done is closed, like err
	err  error
}

func (u *unaryCall) run(client context.Context, md metadata.MD) {
	defer close(u.done)
	ctx, cancel := serverContext(client, md)
	defer cancel()
	ctx, end := u.conn.startServer(ctx, u.method.name, false, false)
	defer func() { end(u.err) }()
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit
			u.err = failed(u.method.name, recover())
		}
	}()
	ctx = grpc.NewContextWithServerTransportStream(ctx, (*unaryTransport)(u))
	u.resp, u.err = u.method.unary.Handler(u.method.impl, ctx, u.decode, u.conn.unary)
	returned = true
}

// failed is the error of a handler that did not return. Interceptors that recover and log come before this.
func failed(method string, p any) error {
	if p == nil {
		return status.Errorf(codes.Internal, "the handler of %s ended without returning", method)
	}
	return status.Error(codes.Internal, fmt.Sprintf("the handler of %s panicked: %v", method, p))
}

func (u *unaryCall) decode(into any) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.abandoned {
		return status.Error(codes.Canceled, "the client gave up before the call began")
	}
	return copyTo(into, u.args)
}

func (u *unaryCall) abandon() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.abandoned = true
}

func (u *unaryCall) report(o *callOptions) {
	u.mu.Lock()
	defer u.mu.Unlock()
	o.setHeader(u.header)
	o.setTrailer(u.trailer)
}

// unaryTransport is what grpc.SetHeader, SendHeader and SetTrailer reach.
type unaryTransport unaryCall

func (t *unaryTransport) Method() string { return t.method.name }

func (t *unaryTransport) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.header = metadata.Join(t.header, md)
	return nil
}

func (t *unaryTransport) SendHeader(md metadata.MD) error { return t.SetHeader(md) }

func (t *unaryTransport) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trailer = metadata.Join(t.trailer, md)
	return nil
}
