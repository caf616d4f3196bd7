package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// fixed is the connection to a server with fixed tools, and the Connector that makes it.
type fixed struct {
	mcp.Client
	tools []string
}

func (f fixed) CheckSecrets(*registry.Server) error                           { return nil }
func (f fixed) CheckTarget(context.Context, *registry.Server) (string, error) { return "found", nil }
func (f fixed) Connect(context.Context, *registry.Server, string) (mcp.Client, error) {
	return f, nil
}
func (f fixed) Info() mcp.Info { return mcp.Info{Name: "fixed"} }
func (f fixed) Close() error   { return nil }

func (f fixed) ListTools(context.Context) ([]json.RawMessage, error) {
	var raw []json.RawMessage
	for _, t := range f.tools {
		raw = append(raw, json.RawMessage(t))
	}
	return raw, nil
}

// TestMcpServer names the tools that are left out because of their names, escaped, and continues with the others.
func TestLeftOutToolsAreNamed(t *testing.T) {
	f := fixed{tools: []string{`{"name":"good","inputSchema":{"type":"object"}}`, `{"name":"evil\u202elive","inputSchema":{"type":"object"}}`}}
	s := serverOf(t, f)
	defer s.Pool.Close()
	s.Connector = f
	report := (&serverTest{
		Server: s, subject: &registry.Server{ID: "s", Trusted: true, AutoActivate: true, Stdio: &registry.Stdio{Command: "x"}}, user: "ann",
	}).run(t.Context())
	if !report.Ok {
		t.Errorf("the test failed: %+v", report.Checks)
	}
	for _, r := range report.Checks {
		if r.Name == "definitions" {
			if r.Status != mcppoolv1.ServerCheck_STATUS_WARNING || !strings.Contains(r.Message, `"evil\u202elive"`) || !strings.Contains(r.Message, "left out") || r.Advice == "" {
				t.Errorf("got %+v", r)
			}
		}
		if r.Name == "tools" && r.Message != "1 tool" {
			t.Errorf("listed %q", r.Message)
		}
	}
}
