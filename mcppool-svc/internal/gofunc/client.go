package gofunc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/worker"
)

// cancelGrace is how long a function has to return whose call was cancelled; what it returns counts.
const cancelGrace = 2 * time.Second

// rpcInvalidParams is how an MCP server says that it does not know a tool.
const rpcInvalidParams = -32602

// client is a connection. It implements mcp.Client. Functions that run when it is closed go on until their calls end.
type client struct {
	servers *Servers
	server  *server
	name    string

	close sync.Once
	done  chan struct{}
}

// Info implements mcp.Client.
func (c *client) Info() mcp.Info {
	return mcp.Info{Name: c.name, Version: c.servers.cfg.Version, Capabilities: mcp.Capabilities{Tools: true}}
}

// ListTools implements mcp.Client.
func (c *client) ListTools(context.Context) ([]json.RawMessage, error) {
	return slices.Clone(c.server.definitions), nil
}

// ToolsVersion implements mcp.Client: functions stay as they are.
func (c *client) ToolsVersion() uint64 { return 0 }

// Done implements mcp.Client.
func (c *client) Done() <-chan struct{} { return c.done }

// Err implements mcp.Client.
func (c *client) Err() error { return nil }

// Close implements mcp.Client.
func (c *client) Close() error {
	c.close.Do(func() { close(c.done) })
	return nil
}

// CallTool implements mcp.Client. The function runs in a goroutine of its own, since it may not care for its context.
func (c *client) CallTool(ctx context.Context, call mcp.Call) (json.RawMessage, error) {
	tool, err := c.begin(ctx, call)
	if err != nil {
		return nil, err
	}
	r := &running{Context: ctx, notify: call.Notify}
	defer r.end()
	w := c.servers.workers.Do(func() (err error) {
		r.raw, err = tool.Call(r, call.Arguments)
		return err
	})
	select {
	case err := <-w.Done():
		c.servers.workers.Give(w, true)
		return c.outcome(ctx, tool, r.raw, err)
	case <-ctx.Done():
	}
	err, returned := grace(ctx, w)
	c.servers.workers.Give(w, returned)
	if !returned {
		return nil, givenUp(ctx, true)
	}
	return c.outcome(ctx, tool, r.raw, err)
}

// begin finds the function, unless it is not to be called.
func (c *client) begin(ctx context.Context, call mcp.Call) (tool Tool, err error) {
	select {
	case <-c.done:
		return tool, &mcp.Error{Kind: mcp.Unavailable, Message: "the connection to the functions was closed", Lost: true}
	default:
	}
	tool, ok := c.server.tools[call.Name]
	switch {
	case ctx.Err() != nil:
		return tool, givenUp(ctx, false)
	case !ok:
		return tool, &mcp.Error{Kind: mcp.Answered, Code: rpcInvalidParams, Sent: true, Message: fmt.Sprintf("unknown tool %q", call.Name)}
	case call.Resume != nil, call.Follow != "":
		return tool, mcp.Errorf(mcp.Misconfigured, "the tool %s is a function by now, which cannot go on with an earlier call; call it anew", call.Name)
	case call.Gate != nil:
		return tool, call.Gate()
	}
	return tool, nil
}

// grace waits for a function that is to return. There is no grace after a deadline: the caller was promised that time and no more.
func grace(ctx context.Context, w *worker.Worker) (err error, returned bool) {
	limit := cancelGrace
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		limit = 0
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-w.Done():
		return err, true
	case <-timer.C:
		return nil, false
	}
}

// outcome is what a call came to whose function has ended.
func (c *client) outcome(ctx context.Context, tool Tool, raw json.RawMessage, err error) (json.RawMessage, error) {
	var known *mcp.Error
	var panicked *worker.Panic
	switch {
	case errors.As(err, &panicked):
		c.servers.log.ErrorContext(ctx, "a tool of this program panicked", "mcp_id", c.name, "tool", tool.Name, "panic", panicked.Value, "stack", string(panicked.Stack))
		return nil, mcp.Panicked(panicked.Value)
	case errors.As(err, &known):
		return nil, known
	case err != nil && ctx.Err() != nil:
		return nil, givenUp(ctx, true)
	case err != nil:
		return nil, &mcp.Error{Kind: mcp.Protocol, Sent: true, Ended: true, Err: err, Message: err.Error()}
	case len(raw) > c.servers.cfg.MaxResult:
		return nil, &mcp.Error{Kind: mcp.TooLarge, Sent: true, Ended: true,
			Message: fmt.Sprintf("the tool %s returned more than %d bytes; ask it for less, or have an operator raise the pool's --max-message-bytes",
				tool.Name, c.servers.cfg.MaxResult)}
	}
	return raw, nil
}

// givenUp is a call that its caller gave up.
func givenUp(ctx context.Context, sent bool) *mcp.Error {
	cause := context.Cause(ctx)
	return &mcp.Error{Kind: mcp.Interrupted, Message: cause.Error(), Sent: sent, Err: errors.Join(ctx.Err(), cause)}
}
