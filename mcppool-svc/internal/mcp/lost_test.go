package mcp

import (
	"testing"

	"pawl.dev/mcppool-svc/internal/registry"
)

// A connection that died is closed by the caller that replaces it, perhaps before the call on it hears of its end: that changes nothing about why
// it ended, nor about whether another try may do better (D11). One that was closed while it lived says nothing of the kind.
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
				t.Errorf("it came to %+v, want %q and transient %v", e, c.message, c.transient)
			}
		})
	}
}

// hangUp does what a close does to a client.
func hangUp(c *client) {
	c.closing = true
	c.finish()
}
