package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// running is one tool call over a connection, however many requests it takes.
type running struct {
	call  Call
	token string
	of    context.Context // the caller's

	mu   sync.Mutex
	ctx  context.Context // guarded by mu; ends with the call; made when first used
	end  func()          // guarded by mu; of ctx
	over bool            // guarded by mu; the call has ended
	task string          // guarded by mu; the MCP task that does the call
	wake chan struct{}   // guarded by mu until it is set with task; buffered; gets a value when the task has changed

	asked   atomic.Int32 // questions that came as requests of their own
	warned  sync.Once    // notifies the caller why no model was asked
	unclear sync.Once    // notifies the caller of a question that may have been for its call
}

// enroll registers a call until leave, so that the server's messages and questions during it reach it.
func (c *client) enroll(ctx context.Context, call Call) *running {
	r := &running{call: call, token: strconv.FormatUint(c.tokens.Add(1), 10), of: ctx}
	c.mu.Lock()
	c.calls[r.token] = r
	c.mu.Unlock()
	return r
}

// leave ends a call with its error, or nil.
func (c *client) leave(r *running, err error) {
	r.mu.Lock()
	r.over = true
	if r.end != nil {
		r.end()
	}
	r.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, r.token)
	if err != nil {
		e := As(err)
		c.unsettled = c.unsettled || e.Kind == Interrupted && e.MayHaveRun
	}
	c.sortOut()
}

// context ends with the call. Most calls need none.
func (r *running) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		r.ctx, r.end = context.WithCancel(r.of)
		if r.over {
			r.end()
		}
	}
	return r.ctx
}

// notify sends a notification to the caller, if it wants them.
func (r *running) notify(n Notification) {
	if r.call.Notify != nil {
		r.call.Notify(n)
	}
}

// callOf finds the call that a request of the server is for: the one on whose stream it came (own), or whose task or progress
// token it names, or else the only one in progress. what describes the request, for errors.
func (c *client) callOf(own *running, params json.RawMessage, what string) (*running, error) {
	if own != nil {
		return own, nil
	}
	meta, _ := strictjson.Member(params, "_meta")
	related, _ := strictjson.Member(meta, mcp.RelatedTaskMetaKey)
	token, _ := strictjson.Member(meta, "progressToken") // text or a number
	task := memberOf(related, "taskId")
	c.mu.Lock()
	r, none := c.calls[strictjson.Content(string(token))], len(c.calls) == 0 || task != ""
	if r == nil {
		r = c.ofTask(task)
	}
	c.mu.Unlock()
	switch {
	case r != nil:
		return r, nil
	case none:
		return nil, errors.New("no tool call is running that this could be asked for; ask during a call")
	case c.unnamed != nil:
		c.unnamed()
	}
	return c.clarify(what)
}

// ofTask returns the call that a task does, or nil. Called with mu held.
func (c *client) ofTask(id string) *running {
	for _, r := range c.calls {
		if id != "" && r.task == id {
			return r
		}
	}
	return nil
}

// stringOf returns a JSON string's text, or "" for anything else.
func stringOf(raw json.RawMessage) string {
	if strictjson.Absent(raw) {
		return "" // most are; text would be on the heap
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

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
	case <-c.life.Done():
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

// sortOut assigns held questions to calls, as far as that is clear. If as many questions are held as calls run, each call may be waiting:
// then the newest question is refused, so that one of the calls returns. Called with mu held.
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

func (c *client) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.unsettled
}

// unclear returns the error that refuses a question that may belong to several calls. Most servers put it into the tool's error, so it names
// the remedy.
func unclear(s *registry.Server, what string) error {
	why := "while several tool calls were running over its connection"
	advice := "from now on only one call at a time runs over a connection to it: call again"
	if s.Isolation == registry.Shared {
		why, advice = "over a connection that all users share", "register it with `--isolation user`, or `--isolation task`"
	}
	return fmt.Errorf("MCP server %s asked for %s %s, and did not name the call that it asks for, so no person was asked; %s. "+
		"(To its authors: send the call's progressToken in _meta.)", s.ID, what, why, advice)
}

// refuseUnclear refuses a question that may belong to several calls. It notifies each call once, and logs once.
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
