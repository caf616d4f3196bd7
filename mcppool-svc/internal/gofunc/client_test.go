package gofunc

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"pawl.dev/mcppool-svc/internal/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open connects to a server with one function, which counts its calls.
func open(t *testing.T, calls *int) mcp.Client {
	t.Helper()
	tool := Tool{Name: "count", Definition: json.RawMessage(`{"name":"count"}`), Call: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		*calls++
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return json.RawMessage(`{}`), nil
	}}
	s := New(Config{Version: "1", MaxResult: 100}, map[string][]Tool{"own": {tool}}, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	if s.Connect("other") != nil {
		t.Error("there is a server that nobody made")
	}
	return s.Connect("own")
}

// What must not be called is not, and says so.
func TestNotCalled(t *testing.T) {
	calls := 0
	c := open(t, &calls)
	late := errors.New("too late")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		call mcp.Call
		kind mcp.Kind
	}{
		"cancelled before":  {gone, mcp.Call{Name: "count"}, mcp.Interrupted},
		"of a task":         {t.Context(), mcp.Call{Name: "count", Follow: "t"}, mcp.Misconfigured},
		"of an earlier one": {t.Context(), mcp.Call{Name: "count", Resume: &mcp.Continuation{}}, mcp.Misconfigured},
		"unknown":           {t.Context(), mcp.Call{Name: "other"}, mcp.Answered},
	} {
		_, err := c.CallTool(tt.ctx, tt.call)
		if e := mcp.As(err); e.Kind != tt.kind || e.Sent != (tt.kind == mcp.Answered) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.CallTool(t.Context(), mcp.Call{Name: "count", Gate: func() error { return late }}); !errors.Is(err, late) {
		t.Errorf("the gate: %v", err)
	}
	if err := errors.Join(c.Close(), c.Close(), c.Err()); err != nil {
		t.Error(err)
	}
	<-c.Done()
	if _, err := c.CallTool(t.Context(), mcp.Call{Name: "count"}); !mcp.As(err).Lost || mcp.As(err).Sent {
		t.Errorf("closed: %v", err)
	}
	if calls != 0 {
		t.Errorf("%d calls were made", calls)
	}
}

func TestCalled(t *testing.T) {
	calls := 0
	c := open(t, &calls)
	defer c.Close()
	for want := range 3 {
		if raw, err := c.CallTool(t.Context(), mcp.Call{Name: "count"}); err != nil || string(raw) != "{}" || calls != want+1 {
			t.Errorf("%s, %v, %d calls", raw, err, calls)
		}
	}
	if got := c.Info().String(); got != "own 1" || c.ToolsVersion() != 0 {
		t.Errorf("it is %q", got)
	}
	if tools, err := c.ListTools(t.Context()); err != nil || len(tools) != 1 {
		t.Errorf("%s, %v", tools, err)
	}
}
