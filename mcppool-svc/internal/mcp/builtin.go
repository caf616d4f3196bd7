package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/registry"
)

// builtin is the transport to a server in this process, which mcp-go runs. It is also the session that the server sees.
type builtin struct {
	client  *client
	server  *server.MCPServer
	session *server.InProcessSession
	release func()
	done    chan struct{}
	work    sync.WaitGroup
}

// connectBuiltin opens a server in this process, one for each connection.
func (c *Connector) connectBuiltin(ctx context.Context, s *registry.Server) (*client, error) {
	open, ok := c.cfg.Builtins[s.Builtin.Name]
	if !ok {
		return nil, Errorf(Misconfigured, "MCP server %s: there is no built-in server %q", s.ID, s.Builtin.Name)
	}
	srv, closer, err := open(s.Builtin.Root)
	if err != nil {
		return nil, Errorf(Unavailable, "MCP server %s: opening %s: %w", s.ID, s.Builtin.Root, err)
	}
	conn := c.newClient(s, legacy)
	conn.stopCancels = true
	wire := &builtin{client: conn, server: srv, release: func() { _ = closer.Close() }, done: make(chan struct{})}
	wire.session = server.NewInProcessSessionWithHandlers(srv.GenerateInProcessSessionID(), nil, wire, nil)
	conn.wire = wire
	if err := srv.RegisterSession(ctx, wire.session); err != nil {
		return nil, errors.Join(Errorf(Unavailable, "MCP server %s: %w", s.ID, err), conn.Close())
	}
	wire.work.Go(func() {
		for {
			select {
			case n := <-wire.session.ClientNotifications():
				conn.notified(n)
			case <-wire.done:
				return
			}
		}
	})
	if err := conn.handshake(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// callKey finds the tool call in the context of a tool.
type callKey struct{}

// start implements transport. The tool runs in a goroutine of its own, since it may not heed its context.
func (t *builtin) start(x *pendingRequest) {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), callKey{}, x.call))
	x.cancel = cancel
	x.sent.Store(true)
	go func() {
		defer cancel()
		defer func() {
			if v := recover(); v != nil {
				t.client.log.Error("a tool of a built-in MCP server panicked", "mcp_id", t.client.server.ID, "panic", v, "stack", string(debug.Stack()))
				x.deliver(response{err: Panicked(v)})
			}
			x.deliver(response{err: exited()})
		}()
		x.deliver(t.handle(ctx, x.text))
	}()
}

// handle has the server handle a request.
func (t *builtin) handle(ctx context.Context, request []byte) response {
	switch m := t.server.HandleMessage(t.server.WithContext(ctx, t.session), request).(type) {
	case mcp.JSONRPCResponse:
		result, err := json.Marshal(m.Result)
		if err != nil {
			return malformed("%w", err)
		}
		return response{result: result}
	case mcp.JSONRPCError:
		return response{err: &Error{Kind: Answered, Code: m.Error.Code, Sent: true, Message: cut(m.Error.Message)}}
	default:
		return malformed("it is a %T", m)
	}
}

// stop implements transport.
func (*builtin) stop(x *pendingRequest) { x.cancel() }

// post implements transport.
func (t *builtin) post(ctx context.Context, message []byte) error {
	t.server.HandleMessage(t.server.WithContext(ctx, t.session), message)
	return nil
}

// close implements transport.
func (t *builtin) close() {
	close(t.done)
	t.work.Wait()
	t.server.UnregisterSession(context.Background(), t.session.SessionID())
	t.release()
}

// Elicit implements mcp-go's handler: a built-in server asks by a Go method call, not a JSON-RPC request.
func (t *builtin) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	raw, err := json.Marshal(request.Params)
	if err != nil {
		return nil, err
	}
	call, _ := ctx.Value(callKey{}).(*running)
	answer, err := t.client.answer(serverRequest{Method: string(mcp.MethodElicitationCreate), Params: raw}, call)
	if err != nil {
		return nil, err
	}
	var result mcp.ElicitationResult
	return &result, json.Unmarshal(answer, &result)
}
