package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/stack"
)

// Function is a tool that is a Go function of this program.
type Function struct {
	Name       string
	Definition json.RawMessage // in the form of tools/list
	// Call returns the result in the form of tools/call. An *Error is returned to the caller unchanged; any other error counts as a defect of
	// the function, unless ctx has ended.
	Call func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)
}

// functions is a connection to Go functions, without MCP messages. It implements Client.
type functions struct {
	Static
	info      Info
	tools     []Function
	maxResult int // bytes
	log       *slog.Logger
	life      context.Context // until Close
	close     context.CancelFunc
}

func (c *Connector) connectFunctions(name string, tools []Function) *functions {
	f := &functions{info: Info{Name: name, Version: c.cfg.Version}, tools: tools, maxResult: c.cfg.MaxMessage, log: c.log}
	f.life, f.close = context.WithCancel(context.Background())
	return f
}

func (f *functions) Info() Info { return f.info }

func (f *functions) ListTools(context.Context) ([]json.RawMessage, error) {
	definitions := make([]json.RawMessage, 0, len(f.tools))
	for _, t := range f.tools {
		definitions = append(definitions, t.Definition)
	}
	return definitions, nil
}

// ToolsVersion implements Client: functions do not change.
func (f *functions) ToolsVersion() uint64 { return 0 }

func (f *functions) Done() <-chan struct{} { return f.life.Done() }

func (f *functions) Err() error { return nil }

// Close implements Client. Functions in progress run on until their calls end.
func (f *functions) Close() error {
	f.close()
	return nil
}

// CallTool implements Client. The function runs in its own goroutine, because it may ignore its context.
func (f *functions) CallTool(ctx context.Context, call Call) (json.RawMessage, error) {
	tool, err := f.find(ctx, call)
	if err != nil {
		return nil, err
	}
	r := &functionCall{Context: ctx, notify: call.Notify}
	defer r.end()
	returned := make(chan response, 1)
	go func() {
		stack.Reserve()
		out := response{err: errExited}
		defer func() {
			if v := recover(); v != nil {
				f.log.ErrorContext(ctx, "a tool of this program panicked", "mcp_id", f.info.Name, "tool", tool.Name, "panic", v, "stack", string(debug.Stack()))
				out.err = Panicked(v)
			}
			returned <- out
		}()
		raw, err := tool.Call(r, json.RawMessage(call.Arguments.String()))
		out = f.response(ctx, tool, raw, err)
	}()
	var out response
	select {
	case out = <-returned:
	case <-ctx.Done():
		var grace time.Duration
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			grace = cancelGrace
		}
		select {
		case out = <-returned:
		case <-time.After(grace):
			out.err = GivenUp(ctx, true)
		}
	}
	if out.err != nil {
		return nil, out.err
	}
	return out.result, nil
}

// errExited is the error if a tool in this process calls runtime.Goexit.
var errExited = endedf(Protocol, "the function ended its goroutine instead of returning")

// find returns the function to call once Call.Gate allows that, or an error if no function may be called.
func (f *functions) find(ctx context.Context, call Call) (tool Function, err error) {
	i := slices.IndexFunc(f.tools, func(t Function) bool { return t.Name == call.Name })
	switch {
	case f.life.Err() != nil:
		return tool, &Error{Kind: Unavailable, Message: "the connection to the functions was closed", Lost: true}
	case ctx.Err() != nil:
		return tool, GivenUp(ctx, false)
	case i < 0:
		return tool, &Error{Kind: Answered, Code: mcp.INVALID_PARAMS, MayHaveRun: true, Message: fmt.Sprintf("unknown tool %q", call.Name)}
	case call.Resume != nil, call.Follow != "":
		return tool, Errorf(Misconfigured, "the tool %s is now a function of this program, which cannot continue an earlier call; call it again from the start", call.Name)
	case call.Gate != nil:
		err = call.Gate()
	}
	return f.tools[i], err
}

// response turns what a function returned into a response.
func (f *functions) response(ctx context.Context, tool Function, raw json.RawMessage, err error) response {
	known, ok := errors.AsType[*Error](err)
	switch {
	case ok:
		return response{err: known}
	case err != nil && ctx.Err() != nil:
		return response{err: GivenUp(ctx, true)}
	case err != nil:
		return response{err: endedf(Protocol, "%w", err)}
	case len(raw) > f.maxResult:
		return response{err: endedf(TooLarge, "the tool %s returned more than %d bytes; ask it for less, or have an operator raise the pool's "+
			"--max-message-bytes", tool.Name, f.maxResult)}
	}
	return response{result: raw}
}

// functionCall is the context of a function. Notify passes notifications through it to the caller until the call ends.
type functionCall struct {
	context.Context
	mu     sync.Mutex
	notify func(Notification) // guarded by mu; may be nil
}

// functionCallKey is the key under which Value returns the functionCall itself.
type functionCallKey struct{}

// Value implements context.Context.
func (r *functionCall) Value(key any) any {
	if key == (functionCallKey{}) {
		return r
	}
	return r.Context.Value(key)
}

func (r *functionCall) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = nil
}

// Notify sends a notification to the caller of a Function. It does nothing unless ctx is the function's context or derived from it.
func Notify(ctx context.Context, n Notification) {
	r, ok := ctx.Value(functionCallKey{}).(*functionCall)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notify != nil {
		r.notify(n)
	}
}

// builtin is the transport to a server in this process, which mcp-go runs. It also answers the server's elicitations.
type builtin struct {
	client  *client
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
	wire := &builtin{client: conn, server: srv, closer: closer}
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

// callKey is the context key of the tool call (*running) that a tool runs for.
type callKey struct{}

// start implements transport. The tool runs in its own goroutine, because it may ignore its context.
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
			x.deliver(response{err: errExited})
		}()
		x.deliver(t.handle(ctx, x.text))
	}()
}

// handle passes a request to the server and returns its response.
func (t *builtin) handle(ctx context.Context, request []byte) response {
	switch m := t.server.HandleMessage(t.server.WithContext(ctx, t.session), request).(type) {
	case mcp.JSONRPCResponse:
		result, err := json.Marshal(m.Result)
		if err != nil {
			return malformedResponse("%w", err)
		}
		return response{result: result}
	case mcp.JSONRPCError:
		return response{err: &Error{Kind: Answered, Code: m.Error.Code, MayHaveRun: true, Message: cut(m.Error.Message)}}
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
