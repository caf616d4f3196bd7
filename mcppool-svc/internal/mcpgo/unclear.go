package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/mcppool-svc/internal/upstream"
)

// wanted is what a server asks for.
type wanted string

// What there is to ask for.
const (
	anInput wanted = "input"
	aModel  wanted = "a model's answer"
)

// unclear is why a question is refused that several running calls may be meant by. Most servers put it into the tool's error, where
// whoever can change something has to understand it.
func unclear(s *spec.Server, what wanted) error {
	when := "while several tool calls were running over its connection"
	advice := "answer the question that is open first, or let the other call end, and call again"
	if what == aModel {
		advice = "let the other call end, and call again"
	}
	switch s.Isolation {
	case spec.PerUser:
		advice = "register it with `--isolation task`, or " + advice
	case spec.Shared:
		when, advice = "over a connection that all users share", "register it with `--isolation task`, or `--isolation user`"
	case spec.PerTask:
	}
	return fmt.Errorf("MCP server %s asked for %s %s, and nothing says which call this is asked for, so nobody was asked: %s. "+
		"(To its authors: send the call's progressToken in _meta.)", s.ID, what, when, advice)
}

// refuseUnclear refuses such a question, and tells those who follow the calls, each of them once, and the pool's log, once.
func (c *client) refuseUnclear(what wanted) error {
	why := unclear(c.server, what)
	c.mu.Lock()
	first := !c.wasUnclear
	c.wasUnclear = true
	var untold []*running
	for _, r := range c.calls {
		if !r.unclear {
			r.unclear = true
			untold = append(untold, r)
		}
	}
	c.mu.Unlock()
	if first {
		c.log.WarnContext(context.Background(), "a question of an MCP server was refused", "error", why)
	}
	data, err := json.Marshal(why.Error())
	if err != nil {
		return errors.Join(why, err)
	}
	for _, r := range untold {
		r.notify(upstream.Notification{Log: &upstream.Log{Level: "warning", Logger: "pawl", Data: string(data)}})
	}
	return why
}
