package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest/mcpfake"
	"pawl.dev/mcppool-svc/internal/oauth"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
)

const (
	echoDefinition = `{"name":"echo","description":"Says what it is told.","inputSchema":{"type":"object",` +
		`"properties":{"text":{"type":"string"}},"required":["text"]},"annotations":{"readOnlyHint":true}}`
	echoInput  = `{"text":"hello"}`
	echoResult = `{"content":[{"type":"text","text":"{\"text\":\"hello\"}"}]}`
)

// echo is a connection whose server answers at once, so that nothing is measured but the pool around it.
type echo struct {
	mcpfake.Static
	done chan struct{}
}

func (echo) Info() mcp.Info { return mcp.Info{Name: "echo", Protocol: "2025-11-25"} }
func (echo) ListTools(context.Context) ([]json.RawMessage, error) {
	return []json.RawMessage{json.RawMessage(echoDefinition)}, nil
}
func (echo) ToolsVersion() uint64 { return 0 }
func (echo) CallTool(_ context.Context, c mcp.Call) (json.RawMessage, error) {
	if err := c.Gate(); err != nil {
		return nil, err
	}
	return json.RawMessage(echoResult), nil
}
func (e echo) Done() <-chan struct{} { return e.done }
func (echo) Err() error              { return nil }
func (echo) Close() error            { return nil }

// serverOf is a Server with the one MCP server `echo`, whose connection is client.
func serverOf(t testing.TB, client mcp.Client) *Server {
	t.Helper()
	st, err := store.Open("", append(registry.Buckets(), pin.Buckets()...)...)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	reg, err := registry.New(st, []*registry.Server{{
		UID: "u", ID: "echo", Stdio: &registry.Stdio{Command: "echo"}, AutoActivate: true, Trusted: true, FromConfig: true,
	}}, log)
	if err != nil {
		t.Fatal(err)
	}
	pins, err := pin.Open(st, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	pool := conn.New(conn.Config{}, func(context.Context, *registry.Server, string) (mcp.Client, error) {
		return client, nil
	}, log)
	l := inflight.New(inflight.Config{}, "pool")
	caller := call.New(pool, l, call.Deps{
		Lookup: reg.Lookup, Now: time.Now, Log: log, Pins: pins, MaxResult: 16 << 20, InputTimeout: time.Minute,
	})
	return New(Parts{Registry: reg, Pool: pool, Caller: caller, Calls: l, Pins: pins, Logins: &oauth.Logins{}, Log: log, ID: "pool"})
}

// wire is the server's end of a stream of calls, without any transport.
type wire struct {
	grpc.ServerStream
	ctx      context.Context
	requests chan *mcppoolv1.CallToolsRequest
	answers  chan *mcppoolv1.CallToolsResponse
}

func (w *wire) Context() context.Context { return w.ctx }
func (w *wire) Recv() (*mcppoolv1.CallToolsRequest, error) {
	if req, ok := <-w.requests; ok {
		return req, nil
	}
	return nil, io.EOF
}
func (w *wire) Send(m *mcppoolv1.CallToolsResponse) error {
	w.answers <- m
	return nil
}
