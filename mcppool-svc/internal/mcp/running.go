package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

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
	wake chan struct{}   // guarded by mu until it is set with task; buffered; the server says that the task changed

	asked   atomic.Int32 // questions that came as requests of their own
	warned  sync.Once    // tells the caller why no model was asked
	unclear sync.Once    // tells the caller of a question that may have been its own
}

// enroll registers a call for what the server says and asks during it, until leave.
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
		c.unsettled = c.unsettled || e.Kind == Interrupted && e.Sent
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

func (r *running) isTask(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.task != "" && r.task == id
}

// errNoCall refuses a question that belongs to no call.
var errNoCall = errors.New("no tool call is running that this could be asked for; ask during a call")

// callOf finds the call that a request of the server is for: the one on whose stream it came (own), or whose task or progress
// token it names, or else the only one in progress. what is what the server asks for, for errors.
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
		return nil, errNoCall
	case c.unnamed != nil:
		c.unnamed()
	}
	return c.clarify(what)
}

// ofTask returns the call that a task does, or nil. Called with mu held.
func (c *client) ofTask(id string) *running {
	for _, r := range c.calls {
		if r.isTask(id) {
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
