package mcp

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

type closeCounter struct{ n int }

func (c *closeCounter) Close() error { c.n++; return nil }

func TestBuiltin(t *testing.T) {
	closer := &closeCounter{}
	cfg := Config{Builtins: map[string]OpenBuiltin{"workspace": func(b *registry.Builtin) (*server.MCPServer, io.Closer, error) {
		if b.Root != "/data" {
			return nil, nil, errors.New("no such folder")
		}
		return newMCP(t), closer, nil
	}}}
	connector := newConnector(t, cfg)
	s := &registry.Server{ID: "ws", Builtin: &registry.Builtin{Name: "workspace", Root: "/data"}}
	c := dialServer(t, connector, s)
	tools, err := c.ListTools(t.Context())
	if err != nil || len(tools) != 2 {
		t.Errorf("tools = %s, %v", tools, err)
	}
	raw, err := callTool(t, c, "echo", `{"text":"hello"}`)
	if err != nil || !strings.Contains(raw, "hello") {
		t.Errorf("call = %s, %v", raw, err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	progress := false
	out, err := c.CallTool(ctx, Call{Name: "wait", Arguments: strictjson.Checked(`{}`), Notify: func(n Notification) {
		progress = n.Progress != nil
		cancel(errors.New("enough"))
	}})
	if err != nil || !strings.Contains(string(out), "stopped in time") || !progress {
		t.Errorf("cancelled call = %s, %v, progress %v", out, err, progress)
	}
	if err := c.Close(); err != nil || closer.n != 1 {
		t.Errorf("Close = %v, closed %d times", err, closer.n)
	}

	s.Builtin.Root = "/none"
	if _, err := connect(t, connector, s); err == nil || !strings.Contains(err.Error(), "no such folder") {
		t.Errorf("error = %v", err)
	}
	s.Builtin.Name = "other"
	if _, err := connect(t, connector, s); err == nil || As(err).Kind != Misconfigured {
		t.Errorf("error = %v", err)
	}
}

// A tool that panics fails its call, not the process.
func TestBuiltinThatPanics(t *testing.T) {
	srv := newMCP(t)
	srv.AddTool(mcp.NewTool("panic"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("boom") })
	c := dialServer(t, newConnector(t, Config{Builtins: map[string]OpenBuiltin{"own": func(*registry.Builtin) (*server.MCPServer, io.Closer, error) {
		return srv, io.NopCloser(nil), nil
	}}}), &registry.Server{ID: "own", Builtin: &registry.Builtin{Name: "own"}})
	_, err := callTool(t, c, "panic", `{}`)
	if e := As(err); e.Kind != Answered || e.Code != mcp.INTERNAL_ERROR || !e.MayHaveRun || !strings.Contains(e.Message, "boom") {
		t.Errorf("error = %v", err)
	}
	if raw, err := callTool(t, c, "echo", `{"text":"on"}`); err != nil || !strings.Contains(raw, "on") {
		t.Errorf("call = %s, %v", raw, err)
	}
}
