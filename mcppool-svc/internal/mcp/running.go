package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// running is one tool call over a connection, however many requests it takes.
type running struct {
	call  Call
	token string
	of    context.Context // the caller's

	mu    sync.Mutex
	ctx   context.Context // guarded by mu; ends with the call; made when first used
	end   func()          // guarded by mu; of ctx
	over  bool            // guarded by mu; the call has ended
	asked int             // guarded by mu; questions that came as requests of their own
	task  string          // guarded by mu; the MCP task that does the call
	wake  chan struct{}   // guarded by mu until it is set with task; buffered; the server says that the task changed
	// warned reports that the caller was told why no model was asked. Guarded by mu.
	warned bool

	unclear bool // guarded by the connection's mu; its follower was told of a question that may have been its own
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

// nextID names a question that came as a request of its own.
func (r *running) nextID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return "q" + strconv.Itoa(r.asked)
}

func (r *running) isTask(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.task != "" && r.task == id
}

// errNoCall refuses a question that belongs to no call.
var errNoCall = errors.New("no tool call is running that this could be asked for; ask during a call")

// callOf finds the call that a request of the server is for: the one on whose stream it came (own), or whose task or progress
// token it names, or else the only one in progress.
func (c *client) callOf(own *running, params json.RawMessage, what wanted) (*running, error) {
	if own != nil {
		return own, nil
	}
	meta, _ := strictjson.Member(params, "_meta")
	related, _ := strictjson.Member(meta, mcp.RelatedTaskMetaKey)
	token, _ := strictjson.Member(meta, "progressToken") // text or a number
	r, err := c.named(memberOf(related, "taskId"), strictjson.Content(string(token)))
	if r != nil || err != nil {
		return r, err
	}
	if c.unnamed != nil {
		c.unnamed()
	}
	return c.clarify(what)
}

// named finds the call of a task or progress token; nil if a question names none and there are calls that may be meant.
func (c *client) named(task, token string) (*running, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.calls[token]; r != nil {
		return r, nil
	}
	for _, r := range c.calls {
		if task != "" && r.isTask(task) {
			return r, nil
		}
	}
	if len(c.calls) == 0 || task != "" {
		return nil, errNoCall
	}
	return nil, nil
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
