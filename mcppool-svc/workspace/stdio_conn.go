package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	// maxRunningCalls is how many tool calls run at a time; further ones wait.
	maxRunningCalls = 8
	// maxOpenCalls is how many may run and wait; further ones are refused.
	maxOpenCalls = 256
)

// stdioConn takes the messages of one client to the MCP server. Tool calls run
// on their own, everything else in the order of arrival.
type stdioConn struct {
	mcp   *server.MCPServer
	out   *stdioWriter
	slots chan struct{}
	calls sync.WaitGroup

	mu   sync.Mutex
	open map[string]context.CancelFunc // by the text of the request id; guarded by mu
}

func newStdioConn(m *server.MCPServer, out *stdioWriter) *stdioConn {
	return &stdioConn{
		mcp: m, out: out,
		slots: make(chan struct{}, maxRunningCalls),
		open:  make(map[string]context.CancelFunc),
	}
}

// serve handles messages until in ends or ctx is done.
func (c *stdioConn) serve(ctx context.Context, in io.Reader) error {
	lines, failed := make(chan message), make(chan error, 1)
	go readMessages(in, lines, failed, ctx.Done())
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, more := <-lines:
			if more {
				c.receive(ctx, m)
				continue
			}
			select {
			case err := <-failed:
				return fmt.Errorf("serve stdio: read from the client: %w", err)
			default:
				return nil
			}
		}
	}
}

func (c *stdioConn) receive(ctx context.Context, m message) {
	if m.tooLong {
		c.refuse(ctx, nil, mcp.INVALID_REQUEST, fmt.Sprintf("the message is longer than %d bytes: send a shorter one", maxMessageBytes))
		return
	}
	line := bytes.TrimSpace(m.line)
	if len(line) == 0 {
		return
	}
	var head struct {
		ID     json.RawMessage `json:"id"`
		Method mcp.MCPMethod   `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	// What does not parse is answered by the server's own parser below.
	_ = json.Unmarshal(line, &head)
	switch {
	case head.Method == mcp.MethodToolsCall && len(head.ID) > 0 && string(head.ID) != "null":
		c.start(ctx, head.ID, line)
	case head.Method == mcp.MethodNotificationCancelled:
		c.cancel(head.Params)
	default:
		if answer := c.mcp.HandleMessage(ctx, line); answer != nil {
			c.out.send(ctx, answer)
		}
	}
}

// start runs a tool call. It is known by its id from here on, so that a
// cancellation right behind it is not lost.
func (c *stdioConn) start(ctx context.Context, id json.RawMessage, line []byte) {
	call, cancel := context.WithCancel(ctx)
	if problem := c.admit(string(id), cancel); problem != "" {
		cancel()
		c.refuse(ctx, id, mcp.INVALID_REQUEST, problem)
		return
	}
	c.calls.Go(func() {
		defer cancel()
		defer c.forget(string(id))
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-call.Done():
			return
		}
		answer := c.mcp.HandleMessage(call, line)
		// A cancelled request gets no answer: the client has given it up.
		if call.Err() == nil {
			c.out.send(call, answer)
		}
	})
}

func (c *stdioConn) admit(id string, cancel context.CancelFunc) (problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.open[id]; taken {
		return "a request with this id is still running: use a new id"
	}
	if len(c.open) >= maxOpenCalls {
		return fmt.Sprintf("%d calls are waiting already: wait for an answer before sending more", maxOpenCalls)
	}
	c.open[id] = cancel
	return ""
}

func (c *stdioConn) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
}

func (c *stdioConn) cancel(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return // a notification has no answer
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel, ok := c.open[string(p.RequestID)]; ok {
		cancel()
	}
}

// refuse answers with an error; id is nil if it is not known.
func (c *stdioConn) refuse(ctx context.Context, id json.RawMessage, code int, reason string) {
	var value any
	if id != nil {
		value = id
	}
	c.out.send(ctx, mcp.NewJSONRPCError(mcp.NewRequestId(value), code, reason, nil))
}
