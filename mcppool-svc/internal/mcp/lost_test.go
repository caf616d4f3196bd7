package mcp

import (
	"testing"

	"pawl.dev/mcppool-svc/internal/registry"
)

// Closing a connection that died changes neither the reason of its end nor that the error is transient (D11). Closing a live one gives
// errClosed, which is not transient.
func TestLostConnections(t *testing.T) {
	died := &Error{Kind: Unavailable, Message: "the program ended", Lost: true}
	for _, c := range []struct {
		name      string
		end       []func(*client)
		message   string
		transient bool
	}{
		{"died", []func(*client){func(c *client) { c.fail(died) }}, died.Message, true},
		{"died, then closed", []func(*client){func(c *client) { c.fail(died) }, hangUp}, died.Message, true},
		{"closed", []func(*client){hangUp}, errClosed.Message, false},
		{"closed, then died of it", []func(*client){hangUp, func(c *client) { c.fail(died) }}, errClosed.Message, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := newConnector(t, Config{}).newClient(&registry.Server{ID: "s"}, legacy)
			conn.info = Info{Protocol: "x"}
			for _, end := range c.end {
				end(conn)
			}
			e := conn.lost(true)
			if e.Message != c.message || e.Transient != c.transient || !e.Lost || !e.MayHaveRun {
				t.Errorf("lost returns %+v, want %q and transient %v", e, c.message, c.transient)
			}
		})
	}
}

// hangUp does to a client what Close does.
func hangUp(c *client) {
	c.closing = true
	c.finish()
}
