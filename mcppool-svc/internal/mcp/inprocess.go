package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/stack"
	"pawl.dev/services/strictjson"
)

// Function is a tool that is a Go function of this program.
type Function struct {
	Name       string
	Definition json.RawMessage // in the form of tools/list
	// Call returns the result in the form of tools/call. An *Error is returned to the caller unchanged; any other error counts as a defect of
	// the function, unless ctx has ended.
	Call func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)
}

// inprocess is the transport to a server in this process. The methods for messages without a response and for the end do nothing.
type inprocess struct {
	client *client
	handle func(context.Context, *pendingRequest) response
}

// start implements transport. The tool runs in its own goroutine, because it may ignore its context.
func (t *inprocess) start(x *pendingRequest) {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), callKey{}, x.call))
	x.cancel = cancel
	x.sent.Store(true)
	go func() {
		stack.Reserve()
		defer cancel()
		defer func() {
			if v := recover(); v != nil {
				t.client.log.Error("a tool of a built-in MCP server panicked", "mcp_id", t.client.server.ID, "tool", x.name, "panic", v, "stack", string(debug.Stack()))
				x.deliver(response{err: Panicked(v)})
			}
			x.deliver(response{err: errExited})
		}()
		x.deliver(t.handle(ctx, x))
	}()
}

func (*inprocess) post(context.Context, []byte) error { return nil }

func (*inprocess) close() {}

// errExited is the error if a tool in this process calls runtime.Goexit.
var errExited = endedf(Protocol, "the function ended its goroutine instead of returning")

// connectFunctions connects to Go functions. Their list of tools, and their results, are all that they have of MCP.
func (c *Connector) connectFunctions(s *registry.Server, functions []Function) *client {
	conn := c.newClient(s, legacy)
	conn.info = Info{Name: s.Builtin.Name, Version: c.cfg.Version}
	conn.cancelsAtServer, conn.noText, conn.stopWait = true, true, 0
	conn.wire = &inprocess{client: conn, handle: func(_ context.Context, x *pendingRequest) response {
		return conn.handleByFunction(functions, x)
	}}
	return conn
}

// handleByFunction responds to a request for the list of tools, or for a tool.
func (c *client) handleByFunction(functions []Function, x *pendingRequest) response {
	switch {
	case x.call != nil:
	case x.method != tools.String():
		return response{err: &Error{Kind: Answered, Code: mcp.METHOD_NOT_FOUND, Message: "functions are tools only"}}
	default:
		definitions := make([]string, 0, len(functions))
		for _, f := range functions {
			definitions = append(definitions, string(f.Definition))
		}
		return response{result: json.RawMessage(`{"tools":` + strictjson.Array(definitions) + `}`)}
	}
	i := slices.IndexFunc(functions, func(f Function) bool { return f.Name == x.name })
	if i < 0 {
		return response{err: &Error{Kind: Answered, Code: mcp.INVALID_PARAMS, MayHaveRun: true, Message: fmt.Sprintf("unknown tool %q", x.name)}}
	}
	ctx := context.WithValue(x.call.ctx, callKey{}, x.call)
	raw, err := functions[i].Call(ctx, json.RawMessage(x.call.call.Arguments.String()))
	known, ok := errors.AsType[*Error](err)
	switch {
	case ok:
		return response{err: known}
	case err != nil && ctx.Err() != nil:
		return response{err: GivenUp(ctx, true)}
	case err != nil:
		return response{err: endedf(Protocol, "%w", err)}
	case len(raw) > c.limit:
		return response{err: endedf(TooLarge, "the tool %s returned more than %d bytes; ask it for less, or have an operator raise the pool's "+
			"--max-message-bytes", x.name, c.limit)}
	}
	return response{result: raw}
}

// callKey is the context key of the tool call (*running) that a tool runs for.
type callKey struct{}

// Notify sends a notification to the caller of a Function until the call ends. It does nothing unless ctx is the function's context or derived
// from it.
func Notify(ctx context.Context, n Notification) {
	r, ok := ctx.Value(callKey{}).(*running)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.notify(n)
	}
}

// builtin is the transport to a server in this process, which mcp-go runs. It also answers the server's elicitations.
type builtin struct {
	inprocess
	server  *server.MCPServer
	session *server.InProcessSession
	closer  io.Closer
}

// connectBuiltin opens a server in this process. Each connection has its own server.
func (c *Connector) connectBuiltin(ctx context.Context, s *registry.Server) (*client, error) {
	open, ok := c.cfg.Builtins[s.Builtin.Name]
	if !ok {
		return nil, Errorf(Misconfigured, "MCP server %s: there is no built-in server %q", s.ID, s.Builtin.Name)
	}
	srv, closer, err := open(s.Builtin)
	if err != nil {
		return nil, Errorf(Unavailable, "MCP server %s: opening %s: %w", s.ID, s.Builtin.Root, err)
	}
	conn := c.newClient(s, legacy)
	conn.cancelsAtServer = true
	wire := &builtin{server: srv, closer: closer}
	wire.inprocess = inprocess{conn, wire.handleMessage}
	wire.session = server.NewInProcessSessionWithHandlers(srv.GenerateInProcessSessionID(), nil, wire, nil)
	conn.wire = wire
	if err := srv.RegisterSession(ctx, wire.session); err != nil {
		return nil, errors.Join(Errorf(Unavailable, "MCP server %s: %w", s.ID, err), conn.Close())
	}
	conn.background(func() {
		for {
			select {
			case n := <-wire.session.ClientNotifications():
				conn.handleNotification(n)
			case <-conn.life.Done():
				return
			}
		}
	})
	if err := conn.handshake(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// handleMessage passes a request to the server and returns its response.
func (t *builtin) handleMessage(ctx context.Context, x *pendingRequest) response {
	switch m := t.server.HandleMessage(t.server.WithContext(ctx, t.session), x.text).(type) {
	case mcp.JSONRPCResponse:
		result, err := json.Marshal(m.Result)
		if err != nil {
			return malformedResponse("%w", err)
		}
		return response{result: result}
	case mcp.JSONRPCError:
		return response{err: &Error{Kind: Answered, Code: m.Error.Code, MayHaveRun: true, Message: Cut(m.Error.Message)}}
	default:
		return malformedResponse("it is a %T", m)
	}
}

func (t *builtin) post(ctx context.Context, message []byte) error {
	t.server.HandleMessage(t.server.WithContext(ctx, t.session), message)
	return nil
}

func (t *builtin) close() {
	t.server.UnregisterSession(context.Background(), t.session.SessionID())
	_ = t.closer.Close()
}

// Elicit implements mcp-go's server.ElicitationHandler: a built-in server asks by a Go method call, not by a JSON-RPC request.
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
