package workspace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	// maxMessageBytes bounds one message from the client: a call of write_file
	// has at most maxWriteBytes, and JSON needs up to twice that for common text.
	maxMessageBytes = 2 * maxWriteBytes
	// maxRunningCalls is how many tool calls run at a time; further ones wait.
	maxRunningCalls = 8
	// maxOpenCalls is how many calls may run and wait; further ones are refused.
	maxOpenCalls = 256
	// writerGrace is how long ServeStdio waits for a client that does not read
	// after ctx is done.
	writerGrace = 2 * time.Second
)

// errWrite is the cause that ends a session after a failed write to the client.
var errWrite = errors.New("write to the client")

// stdioConn passes the messages of one client to the MCP server. Tool calls run
// concurrently, and everything else runs in the order of arrival.
type stdioConn struct {
	mcp           *server.MCPServer
	notifications <-chan mcp.JSONRPCNotification
	responses     chan mcp.JSONRPCMessage
	slots         chan struct{}
	calls         sync.WaitGroup

	mu   sync.Mutex
	open map[string]context.CancelFunc // by the text of the request id; guarded by mu
}

// ServeStdio serves one client: JSON-RPC messages, one per line, on in and out.
// It returns nil when in ends, after answering all requests, or when ctx is
// done. A read that is still blocked then ends only when in is closed.
//
// mcp-go's StdioServer is not used: it shares one session between all servers
// of a process, reads lines of any length, drops running calls at the end of its
// input, and may send progress after the result of the same call.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	id := fmt.Sprintf("stdio-%d", s.sessions.Add(1))
	session := server.NewInProcessSession(id, nil)
	if err := s.mcp.RegisterSession(ctx, session); err != nil {
		return fmt.Errorf("serve stdio: %w", err)
	}
	defer s.mcp.UnregisterSession(context.WithoutCancel(ctx), id)

	c := &stdioConn{
		mcp: s.mcp, notifications: session.ClientNotifications(), responses: make(chan mcp.JSONRPCMessage),
		slots: make(chan struct{}, maxRunningCalls), open: make(map[string]context.CancelFunc),
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write(out, stop)
	}()
	err := c.serve(s.mcp.WithContext(ctx, session), in)
	c.calls.Wait()
	close(c.responses)
	select {
	case <-written:
	case <-ctx.Done():
		select {
		case <-written:
		case <-time.After(writerGrace):
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, errWrite) {
		return cause
	}
	return err
}

// write writes all messages to the client until responses is closed. Before each
// response it writes the notifications that are already queued.
func (c *stdioConn) write(out io.Writer, stop context.CancelCauseFunc) {
	lines := json.NewEncoder(out)
	var failed error // later messages are dropped
	send := func(m any) {
		if failed == nil {
			if failed = lines.Encode(m); failed != nil {
				stop(fmt.Errorf("serve stdio: %w: %w", errWrite, failed))
			}
		}
	}
	for {
		select {
		case notification := <-c.notifications:
			send(notification)
		case response, more := <-c.responses:
			for len(c.notifications) > 0 {
				send(<-c.notifications)
			}
			if !more {
				return
			}
			send(response)
		}
	}
}

// respond hands a response to the writer, unless ctx is done first.
func (c *stdioConn) respond(ctx context.Context, response mcp.JSONRPCMessage) {
	select {
	case c.responses <- response:
	case <-ctx.Done():
	}
}

// serve handles messages until in ends or ctx is done.
func (c *stdioConn) serve(ctx context.Context, in io.Reader) error {
	scanner, lines := bufio.NewScanner(in), make(chan []byte)
	scanner.Buffer(nil, maxMessageBytes)
	go func() {
		defer close(lines)
		for scanner.Scan() {
			select {
			case lines <- bytes.Clone(scanner.Bytes()):
			case <-ctx.Done():
				return
			}
		}
	}()
	for more := true; more; {
		var line []byte
		select {
		case <-ctx.Done():
			return nil
		case line, more = <-lines:
			c.receive(ctx, line)
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("serve stdio: a message is longer than %d bytes: send a shorter one", maxMessageBytes)
	case err != nil:
		return fmt.Errorf("serve stdio: read from the client: %w", err)
	}
	return nil
}

func (c *stdioConn) receive(ctx context.Context, line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	var head struct {
		ID     json.RawMessage `json:"id"`
		Method mcp.MCPMethod   `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	// HandleMessage below answers a line that does not parse.
	_ = json.Unmarshal(line, &head)
	switch {
	case head.Method == mcp.MethodToolsCall && len(head.ID) > 0 && string(head.ID) != "null":
		c.start(ctx, head.ID, line)
	case head.Method == mcp.MethodNotificationCancelled:
		c.cancel(head.Params)
	default:
		if response := c.mcp.HandleMessage(ctx, line); response != nil {
			c.respond(ctx, response)
		}
	}
}

// start runs a tool call in the background. It registers the call's id first,
// so that a cancellation that follows at once is not lost.
func (c *stdioConn) start(ctx context.Context, id json.RawMessage, line []byte) {
	call, cancel := context.WithCancel(ctx)
	if problem := c.admit(string(id), cancel); problem != "" {
		cancel()
		c.respond(ctx, mcp.NewJSONRPCError(mcp.NewRequestId(id), mcp.INVALID_REQUEST, problem, nil))
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
		response := c.mcp.HandleMessage(call, line)
		// The client expects no response to a cancelled request.
		if call.Err() == nil {
			c.respond(call, response)
		}
	})
}

// admit registers a call, or returns why the call is refused.
func (c *stdioConn) admit(id string, cancel context.CancelFunc) (problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id] != nil {
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

// cancel handles a cancellation that the client sent. It ignores unknown calls.
func (c *stdioConn) cancel(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(params, &p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.open[string(p.RequestID)]; cancel != nil {
		cancel()
	}
}
