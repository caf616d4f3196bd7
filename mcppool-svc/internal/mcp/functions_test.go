package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"pawl.dev/mcppool-svc/internal/registry"
)

// openFunctions connects to a server with one function, which counts its calls.
func openFunctions(t *testing.T, calls *int) Client {
	t.Helper()
	tool := Function{Name: "count", Definition: json.RawMessage(`{"name":"count"}`), Call: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		*calls++
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return json.RawMessage(`{}`), nil
	}}
	connector := newConnector(t, Config{Version: "1", MaxMessage: 100, Functions: map[string][]Function{"own": {tool}}})
	if _, err := connect(t, connector, &registry.Server{ID: "x", Builtin: &registry.Builtin{Name: "other"}}); err == nil {
		t.Error("connected to a server that does not exist")
	}
	return dialServer(t, connector, &registry.Server{ID: "x", Builtin: &registry.Builtin{Name: "own"}})
}

// A refused call does not run the function.
func TestFunctionsNotCalled(t *testing.T) {
	calls := 0
	c := openFunctions(t, &calls)
	late := errors.New("too late")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		call Call
		kind Kind
	}{
		"cancelled before": {gone, Call{Name: "count"}, Interrupted},
		"a task":           {t.Context(), Call{Name: "count", Follow: "t"}, Protocol}, // begun elsewhere, so the outcome is unknown
		"a continuation":   {t.Context(), Call{Name: "count", Resume: &Continuation{}}, Misconfigured},
		"unknown":          {t.Context(), Call{Name: "other"}, Answered},
	} {
		_, err := c.CallTool(tt.ctx, tt.call)
		if e := As(err); e.Kind != tt.kind || e.MayHaveRun != (tt.kind == Answered || tt.kind == Protocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.CallTool(t.Context(), Call{Name: "count", Gate: func() error { return late }}); !errors.Is(err, late) {
		t.Errorf("the gate: %v", err)
	}
	if err := errors.Join(c.Close(), c.Close(), c.Err()); err != nil {
		t.Error(err)
	}
	<-c.Done()
	if _, err := c.CallTool(t.Context(), Call{Name: "count"}); !As(err).Lost || As(err).MayHaveRun {
		t.Errorf("closed: %v", err)
	}
	if calls != 0 {
		t.Errorf("%d calls were made", calls)
	}
}

func TestFunctionsCalled(t *testing.T) {
	calls := 0
	c := openFunctions(t, &calls)
	defer c.Close()
	for want := range 3 {
		if raw, err := c.CallTool(t.Context(), Call{Name: "count"}); err != nil || string(raw) != "{}" || calls != want+1 {
			t.Errorf("%s, %v, %d calls", raw, err, calls)
		}
	}
	if got := c.Info().String(); got != "own 1" || c.ToolsVersion() != 0 {
		t.Errorf("the server's info is %q", got)
	}
	if tools, err := c.ListTools(t.Context()); err != nil || len(tools) != 1 {
		t.Errorf("%s, %v", tools, err)
	}
}
