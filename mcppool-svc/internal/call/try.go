package call

import (
	"context"
	"encoding/json"
	"time"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/mcp"
)

// taskAfter is how long a call may take before it is begun as a task, where the tool leaves that open: a request that is held
// longer than this is what proxies cut off, and a task costs two more requests and the time until it is asked for again.
const taskAfter = time.Minute

// taskKeep is how much longer than the call may take a server is asked to keep its result: whoever lost it comes back for it.
const taskKeep = time.Hour

// try is one try of a call, to have the tool called; what the server says and asks during it comes here.
type try struct {
	*making
	n     int // from 1 on
	watch stopwatch
}

// execute calls the tool, unless it is too late by then, or follows the task that does the call.
func (m *making) execute(ctx context.Context, client mcp.Client, tool *catalog.Tool) (json.RawMessage, error) {
	r, limit := &m.r, m.r.limit()
	t := &m.first
	if t.making != nil { // somebody may still be asked for the one before
		t = &try{}
	}
	t.making, t.n = m, m.f.retries+1
	t.watch.start(m.cancel, limit)
	defer t.watch.stop()
	how := mcp.Call{
		Name: r.Tool, Arguments: json.RawMessage(r.Input), Meta: r.meta(ctx),
		Notify: t.notify, Ask: t.ask, Sample: t.sample, Unclear: t.unclear, Gate: t.gate, Again: t.again,
		Resume: r.Resume, Answers: r.Answers, Follow: r.Task,
	}
	if tool != nil && (tool.Tasks == catalog.TaskRequired || tool.Tasks == catalog.TaskOptional && limit > taskAfter) {
		how.Task, how.TaskTTL = mcp.TaskAsked, limit+taskKeep
	}
	return client.CallTool(ctx, how)
}

// notify implements mcp.Call.Notify.
func (t *try) notify(n mcp.Notification) {
	if n.Task != nil {
		t.f.tasked.Store(true)
	}
	t.call.Notify(n)
}

// unclear implements mcp.Call.Unclear.
func (t *try) unclear() { t.f.unclear.Store(true) }

// gate implements mcp.Call.Gate.
func (t *try) gate() error { return t.r.inTime(t.deps.Now()) }

// again implements mcp.Call.Again, by the rules of retrying. Somebody may have been asked by then: the answers go along.
func (t *try) again(ctx context.Context, n int, e *mcp.Error) bool {
	if n >= maxTries || !e.Transient || e.Sent && !t.f.repeatable || t.f.tasked.Load() || !sleep(ctx, pause(n, e)) || !t.same(&t.r) {
		return false
	}
	t.f.repeats++
	t.deps.Log.InfoContext(ctx, "a tool call goes on once more", "mcp_id", t.r.MCPID, "tool", t.r.Tool, "call_id", t.r.CallID, "try", n+1, "error", e)
	return true
}
