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

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// running is one tool call over a connection. It may take several requests.
type running struct {
	call  Call
	token string          // progress token
	ctx   context.Context // the caller's, but ends with the call
	end   func()          // ends ctx

	mu    sync.Mutex
	ended bool          // guarded by mu
	task  string        // guarded by the client's mu; the id of the MCP task that runs the call
	wake  chan struct{} // guarded by the client's mu; set with task; buffered; gets a value when the task has changed

	asked       atomic.Int32 // how many questions came as requests of their own
	warnOnce    sync.Once    // notifies the caller why no model was asked
	unclearOnce sync.Once    // notifies the caller of a refused question that may have been for this call
}

// addCall registers a call until removeCall, so that it gets the server's messages and questions.
func (c *client) addCall(ctx context.Context, call Call) *running {
	r := &running{call: call, token: strconv.FormatUint(c.tokens.Add(1), 10)}
	r.ctx, r.end = context.WithCancel(ctx)
	c.mu.Lock()
	c.calls[r.token] = r
	c.mu.Unlock()
	return r
}

// removeCall ends a call with its error, or nil, and notes whether the server may still work on it.
func (c *client) removeCall(r *running, err error) {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, r.token)
	if err != nil {
		e := As(err)
		c.unsettled = c.unsettled || e.Kind == Interrupted && e.MayHaveRun
	}
	c.assignHeld()
}

// hold passes on what a large response holds of the budget. It releases that if the response is not a result of a call: r may be nil.
func (r *running) hold(h *jsonrpc.Held) {
	switch {
	case h == nil:
	case r == nil || r.call.Hold == nil:
		h.Release()
	default:
		r.call.Hold(h)
	}
}

// notify sends a notification to the caller, unless Call.Notify is nil.
func (r *running) notify(n Notification) {
	if r.call.Notify != nil {
		r.call.Notify(n)
	}
}

// callOf returns the call that a request of the server is for: the call on whose stream the request came (own), else the call whose task or
// progress token it names, else the call that awaitCall returns. what describes the request, for errors.
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
		r = c.callOfTask(task)
	}
	c.mu.Unlock()
	switch {
	case r != nil:
		return r, nil
	case none:
		return nil, errors.New("no tool call is running that this could be asked for; ask during a call")
	case c.onUnnamed != nil:
		c.onUnnamed()
	}
	return c.awaitCall(what)
}

// callOfTask returns the call that a task runs, or nil. Called with mu held.
func (c *client) callOfTask(id string) *running {
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
		return "" // the usual case: it saves the allocation of text
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// holdLimit is how long a question is held until its call is clear. Servers wait longer for answers.
const holdLimit = 15 * time.Second

// awaitCall returns the call of a question that names no call: the only call in progress. While there are several, awaitCall waits for calls
// to end. It refuses the question if that takes too long, or if assignHeld refuses it.
func (c *client) awaitCall(what string) (*running, error) {
	assigned := make(chan *running, 1)
	c.mu.Lock()
	c.heldQuestions = append(c.heldQuestions, assigned)
	c.assignHeld()
	c.mu.Unlock()
	var r *running
	select {
	case r = <-assigned:
	case <-time.After(c.holdFor):
	case <-c.life.Done():
	}
	c.mu.Lock()
	c.heldQuestions = slices.DeleteFunc(c.heldQuestions, func(other chan *running) bool { return other == assigned })
	c.mu.Unlock()
	select {
	case r = <-assigned: // at the last moment
	default:
	}
	if r == nil {
		return nil, c.refuseUnclear(what)
	}
	return r, nil
}

// assignHeld gives held questions to the only call in progress. It refuses all questions if users share the connection, or if a call was given
// up that a question may be for. If as many questions are held as calls run, each call may be waiting: then assignHeld refuses the newest
// question, so that one of the calls returns. Called with mu held.
func (c *client) assignHeld() {
	var only *running
	keep := max(len(c.calls)-1, 0)
	switch {
	case c.shared || c.unsettled:
		keep = 0
	case len(c.heldQuestions) > 0 && len(c.calls) == 1:
		for _, r := range c.calls {
			only = r
		}
	}
	for len(c.heldQuestions) > keep {
		last := len(c.heldQuestions) - 1
		c.heldQuestions[last] <- only
		c.heldQuestions = c.heldQuestions[:last]
	}
}

func (c *client) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.unsettled
}

// unclearError returns the error that refuses a question that may belong to several calls. Most servers copy it into the tool's error, so it
// names the remedy.
func unclearError(s *registry.Server, what string) error {
	why := "while several tool calls were running over its connection"
	advice := "from now on only one call at a time runs over a connection to it: call again"
	if s.Isolation == registry.Shared {
		why, advice = "over a connection that all users share", fmt.Sprintf(
			"an operator has to give each user or task its own: `pawl mcp update %s --isolation user`, or `--isolation task`", s.ID)
	}
	return fmt.Errorf("MCP server %s asked for %s %s, and did not name the call that it asks for, so the pool refused the request; %s. "+
		"(To its authors: send the call's progressToken in _meta.)", s.ID, what, why, advice)
}

// refuseUnclear refuses a question that may belong to several calls. It notifies each call once, and logs once.
func (c *client) refuseUnclear(what string) error {
	why := unclearError(c.server, what)
	c.logUnclear.Do(func() {
		c.log.WarnContext(context.Background(), "a question of an MCP server was refused", "error", why)
	})
	c.mu.Lock()
	calls := slices.Collect(maps.Values(c.calls))
	c.mu.Unlock()
	for _, r := range calls {
		r.unclearOnce.Do(func() {
			if r.call.Unclear != nil {
				r.call.Unclear()
			}
			r.notify(warning(why))
		})
	}
	return why
}
