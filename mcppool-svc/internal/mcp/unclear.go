package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"pawl.dev/mcppool-svc/internal/registry"
)

// clearWithin is how long a question waits for its call to become clear. Servers wait for answers longer than that.
const clearWithin = 15 * time.Second

// clarify finds the call of a question that names none: the only one in progress, or of several the one that is left when the others
// have ended, since a server asks before it answers. It refuses the question if that takes too long, if each of the calls may be
// waiting for an answer, and if users share the connection or a call was given up: the question may be for one of those.
func (c *client) clarify(what string) (*running, error) {
	whose := make(chan *running, 1)
	c.mu.Lock()
	c.held = append(c.held, whose)
	c.sortOut()
	c.mu.Unlock()
	var r *running
	select {
	case r = <-whose:
	case <-time.After(c.patience):
	case <-c.done:
	}
	c.mu.Lock()
	c.held = slices.DeleteFunc(c.held, func(other chan *running) bool { return other == whose })
	c.mu.Unlock()
	select {
	case r = <-whose: // in the last moment
	default:
	}
	if r == nil {
		return nil, c.refuseUnclear(what)
	}
	return r, nil
}

// sortOut assigns held questions to calls, as far as that is clear. If as many are held as calls run, each may be waiting:
// then the newest is refused, so that one of the calls comes back. Called with mu held.
func (c *client) sortOut() {
	var only *running
	keep := max(len(c.calls)-1, 0)
	switch {
	case c.shared || c.unsettled:
		keep = 0
	case len(c.held) > 0 && len(c.calls) == 1:
		for _, r := range c.calls {
			only = r
		}
	}
	for len(c.held) > keep {
		last := len(c.held) - 1
		c.held[last] <- only
		c.held = c.held[:last]
	}
}

// Settled implements Settler.
func (c *client) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.unsettled
}

// unclear is the refusal of a question that may be of several calls. Most servers put it into the tool's error, so it explains what
// to change.
func unclear(s *registry.Server, what string) error {
	why := "while several tool calls were running over its connection"
	advice := "from now on only one call at a time runs over a connection to it: call again"
	if s.Isolation == registry.Shared {
		why, advice = "over a connection that all users share", "register it with `--isolation user`, or `--isolation task`"
	}
	return fmt.Errorf("MCP server %s asked for %s %s, and nothing says which call this is asked for, so no person was asked; %s. "+
		"(To its authors: send the call's progressToken in _meta.)", s.ID, what, why, advice)
}

// refuseUnclear refuses such a question, and tells each call once and the log once.
func (c *client) refuseUnclear(what string) error {
	why := unclear(c.server, what)
	c.wasUnclear.Do(func() {
		c.log.WarnContext(context.Background(), "a question of an MCP server was refused", "error", why)
	})
	c.mu.Lock()
	calls := slices.Collect(maps.Values(c.calls))
	c.mu.Unlock()
	for _, r := range calls {
		r.unclear.Do(func() {
			if r.call.Unclear != nil {
				r.call.Unclear()
			}
			r.notify(warning(why))
		})
	}
	return why
}
