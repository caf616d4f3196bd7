package mcp

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

func newConnector(t *testing.T, cfg Config) *Connector {
	t.Helper()
	if cfg.Environ == nil {
		cfg.Environ = os.Environ()
	}
	c := NewConnector(cfg, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)
	return c
}

// dial connects to a fake child.
func dial(t *testing.T, mode string) Client {
	t.Helper()
	return dialServer(t, newConnector(t, Config{}), &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mode)})
}

func dialServer(t *testing.T, c *Connector, s *registry.Server) Client {
	t.Helper()
	client, err := connect(t, c, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func connect(t *testing.T, c *Connector, s *registry.Server) (Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return c.Connect(ctx, s, "ann")
}

func callTool(t *testing.T, c Client, name, args string) (string, error) {
	t.Helper()
	raw, err := c.CallTool(t.Context(), Call{Name: name, Arguments: strictjson.Checked(args), Notify: func(Notification) {}})
	return string(raw), err
}
