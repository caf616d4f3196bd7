package mcp

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// On a connection that users share, logs, which name no call, reach no user; progress, which names one, does.
func TestSharedLogs(t *testing.T) {
	for isolation, want := range map[registry.Isolation]int{registry.PerUser: 1, registry.Shared: 0} {
		c := dialServer(t, newConnector(t, Config{}), &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mcptest.Good), Isolation: isolation})
		logs, steps := 0, 0
		_, err := c.CallTool(t.Context(), Call{Name: "steps", Arguments: strictjson.Checked(`{}`), Notify: func(n Notification) {
			if n.Log != nil {
				logs++
			}
			if n.Progress != nil {
				steps++
			}
		}})
		if err != nil || logs != want || steps != 3 {
			t.Errorf("isolation %v: %d logs, %d steps, %v", isolation, logs, steps, err)
		}
	}
}

// A question that names no call may belong to one that has ended: on a connection that users share it is refused.
func TestSharedQuestions(t *testing.T) {
	one := &running{}
	c := &client{calls: map[string]*running{"7": one}, life: t.Context()}
	if r, err := c.callOf(nil, nil, "input"); r != one || err != nil {
		t.Errorf("of one user: %v, %v", r, err)
	}
	c.shared, c.server, c.log = true, &registry.Server{ID: "s", Isolation: registry.Shared}, slog.New(slog.DiscardHandler)
	if r, err := c.callOf(nil, nil, "input"); err == nil || !strings.Contains(err.Error(), "all users share, and did not name the call") {
		t.Errorf("of all users: %v, %v", r, err)
	}
	named := json.RawMessage(`{"_meta":{"progressToken":"7"}}`)
	if r, err := c.callOf(nil, named, "input"); r != one || err != nil {
		t.Errorf("a call that is named: %v, %v", r, err)
	}
}
