package inproc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/services/stack"
)

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
