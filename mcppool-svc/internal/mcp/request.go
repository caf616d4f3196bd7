package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/worker"
)

const (
	// cancelGrace is how long a server has to answer a call that was cancelled; its answer counts.
	cancelGrace = 2 * time.Second
	// abandonWait is how long a transport may take to notice that a request was given up.
	abandonWait = time.Second
	// firstOwnID is where the ids of the requests begin that do not go through mcp-go's client, which counts from 1. Servers that keep
	// ids in 32 bits can read them.
	firstOwnID = 1 << 30
)

// request makes one request of a tool call, which ctx interrupts. It goes to the transport past mcp-go's client, which would
// write it and read its answer once more each.
func (c *client) request(ctx context.Context, x *exchange, request transport.JSONRPCRequest) (json.RawMessage, error) {
	switch {
	case c.pipe != nil:
		return c.overLines(ctx, x, request)
	case c.direct:
		return c.aside(ctx, x, request)
	}
	if id, ok := request.ID.Value().(int64); ok {
		x.wants = strconv.AppendInt(nil, id, 10)
	}
	run, stop := context.WithCancel(withExchange(context.WithoutCancel(ctx), x))
	defer stop()
	var end verdict
	answered, interrupted := make(chan error, 1), make(chan struct{})
	spare := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		end.raw, end.err = c.interrupt(ctx, x, answered, stop)
	})
	_, err := c.wire.SendRequest(run, request)
	if spare() {
		return c.outcome(x, err)
	}
	answered <- err
	<-interrupted
	return end.raw, end.err
}

// verdict is what an interrupted call came to.
type verdict struct {
	raw json.RawMessage
	err error
}

// aside makes a request that is the tool itself: it may not care for its context, so that another goroutine waits for it.
func (c *client) aside(ctx context.Context, x *exchange, request transport.JSONRPCRequest) (json.RawMessage, error) {
	run, stop := context.WithCancel(withExchange(context.WithoutCancel(ctx), x))
	defer stop()
	w := c.workers.Do(func() error {
		_, err := c.wire.SendRequest(run, request)
		return err
	})
	select {
	case err := <-w.Done():
		c.workers.Give(w, true)
		return c.outcome(x, c.survived(err))
	case <-ctx.Done():
		defer c.workers.Give(w, false)
		return c.interrupt(ctx, x, w.Done(), stop)
	}
}

// survived makes a server's error of a panic in this process.
func (c *client) survived(err error) error {
	var panicked *worker.Panic
	if !errors.As(err, &panicked) {
		return err
	}
	c.log.Error("a tool of a built-in MCP server panicked", "mcp_id", c.server.ID, "panic", panicked.Value, "stack", string(panicked.Stack))
	return Panicked(panicked.Value)
}

// overLines makes a request of a child in the caller's goroutine: it waits for the answer and for ctx alike.
func (c *client) overLines(ctx context.Context, x *exchange, request transport.JSONRPCRequest) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, givenUp(ctx, false)
	}
	if err := c.tap.begin(x, &request); err != nil {
		return c.outcome(x, err)
	}
	waiting, err := c.pipe.send(request)
	if err != nil {
		return c.outcome(x, c.tap.failed(ctx, x, request, err))
	}
	defer waiting.end()
	r, err := waiting.wait(ctx.Done())
	if errors.Is(err, errWaited) {
		return c.interruptLines(ctx, x, request, waiting)
	}
	return c.received(ctx, x, request, r, err)
}

// received takes what came back over a child's lines, or why nothing will.
func (c *client) received(ctx context.Context, x *exchange, request transport.JSONRPCRequest, r reply, err error) (json.RawMessage, error) {
	if err == nil && r.plain() {
		x.answer(r.result, nil)
		return r.result, nil
	}
	var response *transport.JSONRPCResponse
	if err == nil {
		response, err = r.response(request.ID)
	}
	return c.outcome(x, c.tap.finish(ctx, x, request, response, err))
}

// interruptLines is interrupt for a request to a child.
func (c *client) interruptLines(ctx context.Context, x *exchange, request transport.JSONRPCRequest, waiting waiting) (json.RawMessage, error) {
	cause := context.Cause(ctx)
	x.abandon()
	c.tellCancelled(request.ID, cause.Error())
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), c.grace(cause))
	defer stop()
	r, err := waiting.wait(grace.Done())
	if errors.Is(err, errWaited) {
		return nil, givenUp(ctx, true)
	}
	return c.received(grace, x, request, r, err)
}

// grace is how long a server has to answer all the same. There is none after a deadline: the caller was promised that time and no more.
func (c *client) grace(cause error) time.Duration {
	if errors.Is(cause, context.DeadlineExceeded) {
		return 0
	}
	return cancelGrace
}

// interrupt ends a call whose caller gave up: the server is told, may still answer within the grace, and what it answers
// counts.
func (c *client) interrupt(ctx context.Context, x *exchange, answered <-chan error, stop func()) (json.RawMessage, error) {
	cause := context.Cause(ctx)
	id, handed := x.abandon()
	switch {
	case !handed || c.hangsUp:
	case c.direct:
		stop()
	default:
		c.tellCancelled(id, cause.Error())
	}
	if grace := c.grace(cause); handed && !c.hangsUp && grace > 0 {
		if err, ok := within(grace, answered); ok {
			return c.outcome(x, err)
		}
	}
	stop()
	_, _ = within(abandonWait, answered)
	r := x.report()
	if r.result != nil {
		return r.result, nil // it came in the last moment
	}
	return nil, givenUp(ctx, r.sent)
}

// givenUp is a request that its caller gave up.
func givenUp(ctx context.Context, sent bool) *Error {
	cause := context.Cause(ctx)
	return &Error{Kind: Interrupted, Message: cause.Error(), Sent: sent, Err: errors.Join(ctx.Err(), cause)}
}

// within waits for an answer, but not longer than d.
func within(d time.Duration, answered <-chan error) (error, bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-answered:
		return err, true
	case <-timer.C:
		return nil, false
	}
}

// nextID is an id of a request that does not go through mcp-go's client.
func (c *client) nextID() mcp.RequestId { return mcp.NewRequestId(firstOwnID + c.ids.Add(1)) }
