package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

const (
	// tasksExtension is the extension for tasks since 2026-07-28: the server decides which calls run as tasks, and tasks/get returns everything.
	tasksExtension = "io.modelcontextprotocol/tasks"
	updateTask     = "tasks/update"
	// maxTaskID is the longest id of a task that the API accepts.
	maxTaskID = 2000
)

// mcpTask is a task as a server describes it.
type mcpTask struct {
	Task
	poll   time.Duration // 0 if the server sets none
	fields map[string]json.RawMessage
}

// taskOf reads the answer of a server that does a call as a task, in the form of either revision; asked reports whether one was
// asked for.
func taskOf(fields map[string]json.RawMessage, asked bool) (mcpTask, bool) {
	if stringOf(fields["resultType"]) == "task" {
		return readTask(fields), true
	}
	if !asked || strictjson.Absent(fields["task"]) || !strictjson.Absent(fields["content"]) {
		return mcpTask{}, false
	}
	task, err := strictjson.MemberMap(fields["task"])
	if err != nil {
		return mcpTask{}, false
	}
	return readTask(task), true
}

func readTask(fields map[string]json.RawMessage) mcpTask {
	return mcpTask{
		Task: Task{
			ID: stringOf(fields["taskId"]), Status: stringOf(fields["status"]), Message: cut(stringOf(fields["statusMessage"])),
			TTL: milliseconds(fields["ttl"], fields["ttlMs"]),
		},
		poll:   milliseconds(fields["pollInterval"], fields["pollIntervalMs"]),
		fields: fields,
	}
}

// milliseconds is the first of these that is a sensible duration.
func milliseconds(all ...json.RawMessage) time.Duration {
	const most = 1000 * 24 * time.Hour
	for _, raw := range all {
		var n float64
		if !strictjson.Absent(raw) && json.Unmarshal(raw, &n) == nil && n > 0 {
			return time.Duration(min(n, float64(most/time.Millisecond)) * float64(time.Millisecond))
		}
	}
	return 0
}

func (t mcpTask) over() bool {
	return t.Status == "completed" || t.Status == "failed" || t.Status == "cancelled"
}

// portable reports whether any connection to the server can ask for a task: nothing of this one's session is needed.
func (c *client) portable() bool {
	t, ok := c.wire.(*web)
	return ok && !t.older && (c.isModern() || t.session.Load() == nil)
}

// taskRequest makes a request about a task and returns its raw result.
func (c *client) taskRequest(ctx context.Context, r *running, method, id string, more map[string]any) (json.RawMessage, error) {
	params := map[string]any{"taskId": id}
	maps.Copy(params, more)
	x, err := c.newRequest(method, id, params)
	if err != nil {
		return nil, err
	}
	x.asker = r
	return c.roundTrip(ctx, x, nil)
}

// getTask asks how far a task is.
func (c *client) getTask(ctx context.Context, r *running, id string) (mcpTask, error) {
	raw, err := c.taskRequest(ctx, r, string(mcp.MethodTasksGet), id, nil)
	if err != nil {
		return mcpTask{}, err
	}
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return mcpTask{}, sentf(Protocol, "the server's answer to tasks/get cannot be read: %w", err)
	}
	t := readTask(fields)
	if t.ID != id {
		return mcpTask{}, sentf(Protocol, "the server answered with the task %.100q when asked for %.100q", t.ID, id)
	}
	return t, nil
}

// taskResult gets the result of a task that has ended; before 2026-07-28 it is asked for apart.
func (c *client) taskResult(ctx context.Context, r *running, t mcpTask) (json.RawMessage, error) {
	switch {
	case !c.isModern():
		raw, err := c.taskRequest(ctx, r, string(mcp.MethodTasksResult), t.ID, nil)
		content, _ := strictjson.Member(raw, "content")
		if t.Status == "cancelled" && (err == nil && strictjson.Absent(content) || err != nil && As(err).Kind == Answered) {
			return nil, taskCancelled(t)
		}
		return raw, err
	case t.Status == "cancelled":
		return nil, taskCancelled(t)
	case t.Status == "completed" && !strictjson.Absent(t.fields["result"]):
		return t.fields["result"], nil
	case t.Status == "completed":
		return nil, endedf(Protocol, "the task %.100q is completed, but has no result", t.ID)
	}
	code, _ := strictjson.Member(t.fields["error"], "code")
	e := &Error{Kind: Answered, MayHaveRun: true, Message: cmp.Or(cut(memberOf(t.fields["error"], "message")), "the task failed: "+t.Message)}
	_ = json.Unmarshal(code, &e.Code) // 0 if there is none
	return nil, e
}

// taskCancelled is the error of a task that was cancelled. How far it got is not known.
func taskCancelled(t mcpTask) *Error {
	e := sentf(Interrupted, "%s", strings.TrimSuffix(fmt.Sprintf("the server cancelled the task %.100q: %s", t.ID, t.Message), ": "))
	e.Err = context.Canceled
	return e
}

const (
	// A task is polled at its server's interval, within bounds, or at growing intervals if the server sets none.
	minPoll, maxPoll    = 50 * time.Millisecond, time.Minute
	firstPoll, idlePoll = 250 * time.Millisecond, 5 * time.Second
	pollLimit           = 30 * time.Second // of one poll
	maxPollFailures     = 8                // in a row
	maxResultTries      = 4
)

// follower waits for a task's end.
type follower struct {
	c    *client
	r    *running
	id   string // of the task
	task mcpTask

	interval time.Duration // if the server sets none
	failures int           // in a row
	result   chan response // of tasks/result, while the server asks through it; else nil

	work   sync.WaitGroup
	inputs map[string]context.CancelCauseFunc // withdraws open questions, by the server's names; since 2026-07-28
}

// followTask waits for a task's end and returns its result. The task's name goes to the caller at once.
func (c *client) followTask(ctx context.Context, r *running, t mcpTask) (json.RawMessage, error) {
	if t.ID == "" || len(t.ID) > maxTaskID {
		return nil, sentf(Protocol, "the server does the call as a task without a name, or with one of more than %d bytes", maxTaskID)
	}
	if r.call.Follow != "" && !c.portable() {
		return nil, sentf(Protocol, "the task belongs to another connection of the MCP server; its outcome cannot be found out")
	}
	c.mu.Lock()
	r.task, r.wake = t.ID, make(chan struct{}, 1)
	c.mu.Unlock()
	ctx, end := context.WithCancel(ctx)
	f := &follower{c: c, r: r, id: t.ID, task: t, interval: firstPoll, inputs: make(map[string]context.CancelCauseFunc)}
	defer f.work.Wait()
	defer end()
	if r.call.Follow == "" {
		f.tell()
	}
	raw, err := f.run(ctx)
	if err != nil && ctx.Err() != nil {
		return f.abandon(ctx)
	}
	return raw, err
}

// tell reports the state of the task to the caller.
func (f *follower) tell() {
	t := f.task.Task
	t.Portable = f.c.portable()
	f.r.notify(Notification{Task: &t})
}

// known reports whether the state of the task is known without a first poll. It is not for a followed task, nor, since 2026-07-28, for a task
// that asks or has ended: only tasks/get returns all of it.
func (f *follower) known() bool {
	return f.r.call.Follow == "" && (!f.c.isModern() || f.task.Status == "working")
}

// run polls until the task is over. An error counts only if the call itself has not ended.
func (f *follower) run(ctx context.Context) (json.RawMessage, error) {
	known := f.known()
	if !known {
		f.task.Status = "" // so that the first poll is reported to the caller
	}
	for tries := 1; ; {
		if !known {
			if err := f.poll(ctx); err != nil {
				return nil, err
			}
		}
		known = false
		switch {
		case f.task.over():
			if raw, err := f.end(ctx, tries); raw != nil || err != nil {
				return raw, err
			}
			tries++
		case f.task.Status == "input_required":
			f.input(ctx)
		}
		select {
		case <-time.After(f.pause()):
		case <-f.r.wake:
		case v := <-f.result:
			if f.result = nil; v.err == nil {
				return v.result, nil
			} // the server would not wait: it is asked as always
		case <-f.c.life.Done():
			return nil, f.c.lost(true)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// pause is how long to wait before the next question.
func (f *follower) pause() time.Duration {
	if f.task.poll > 0 && f.failures == 0 {
		return min(max(f.task.poll, minPoll), maxPoll)
	}
	d := f.interval
	f.interval = min(d*3/2, idlePoll)
	return d
}

// poll asks how far the task is. An error ends the call: how the tool ended is not known then. Other failures are repeated, since the task
// goes on meanwhile.
func (f *follower) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	t, err := f.c.getTask(ctx, f.r, f.id)
	if err == nil {
		before := f.task
		f.failures, f.task = 0, t
		if before.Status != t.Status || before.Message != t.Message {
			f.interval = firstPoll
			f.tell()
		}
		return nil
	}
	e := *As(err)
	final := e.Lost && !f.c.portable()
	if e.MayHaveRun, e.Ended = true, false; e.Kind == Answered {
		final = final || e.Code == mcp.INVALID_PARAMS || e.Code == mcp.METHOD_NOT_FOUND || e.Code == mcp.MISSING_REQUIRED_CLIENT_CAPABILITY
		e.Kind = Protocol
		e.Message = fmt.Sprintf("the MCP server does not tell the outcome of the task %.100q: error %d: %s", f.id, e.Code, e.Message)
	}
	if f.failures++; final || f.failures > maxPollFailures || f.c.isDone() {
		return &e
	}
	return nil
}

// end gets the result of a task that is over. It returns nil if that is to be tried again.
func (f *follower) end(ctx context.Context, try int) (json.RawMessage, error) {
	raw, err := f.c.taskResult(ctx, f.r, f.task)
	if err == nil {
		return raw, nil
	}
	e := *As(err)
	if e.MayHaveRun = true; e.Kind == Unavailable && try < maxResultTries && !f.c.isDone() {
		return nil, nil
	}
	return nil, &e
}

// abandon ends a call before its task has ended. It cancels the task at the server, and a result that the task had by then counts. If this pool
// is stopping and another pool can follow the task, the task is not cancelled.
func (f *follower) abandon(ctx context.Context) (json.RawMessage, error) {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrStopping) && f.c.portable() {
		return nil, GivenUp(ctx, true)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	_, err := f.c.taskRequest(last, f.r, string(mcp.MethodTasksCancel), f.id, nil)
	if errors.Is(cause, context.DeadlineExceeded) || err != nil && As(err).Kind != Answered {
		return nil, GivenUp(ctx, true)
	}
	t, err := f.c.getTask(last, f.r, f.id)
	if err == nil && t.over() && t.Status != "cancelled" {
		if raw, err := f.c.taskResult(last, f.r, t); err == nil {
			return raw, nil
		}
	}
	return nil, GivenUp(ctx, true)
}

// input gets the answer to a task's question.
func (f *follower) input(ctx context.Context) {
	if f.c.isModern() {
		f.modernInput(ctx)
		return
	}
	// The server asks while tasks/result waits, with requests of its own.
	if f.result != nil {
		return
	}
	result := make(chan response, 1)
	f.result = result
	f.work.Go(func() {
		raw, err := f.c.taskRequest(ctx, f.r, string(mcp.MethodTasksResult), f.id, nil)
		result <- response{raw, Find(err)}
	})
}

// modernInput asks the new questions, and withdraws those that the server no longer asks.
func (f *follower) modernInput(ctx context.Context) {
	requests, err := strictjson.MemberMap(f.task.fields["inputRequests"])
	if err != nil || len(requests) > maxInputs {
		requests = nil
	}
	for name, withdraw := range f.inputs {
		if requests[name] == nil {
			withdraw(errWithdrawn)
		}
	}
	for name, raw := range requests {
		if f.inputs[name] != nil || len(f.inputs) == maxRounds*maxInputs {
			continue
		}
		asking, withdraw := context.WithCancelCause(ctx)
		f.inputs[name] = withdraw
		f.work.Go(func() {
			defer withdraw(nil)
			f.answer(asking, name, raw)
		})
	}
}

// answer gets the answer to one thing, and gives it to the server until it has reached it. What cannot be asked is declined.
func (f *follower) answer(ctx context.Context, name string, raw json.RawMessage) {
	var response json.RawMessage
	in, err := f.c.readNamed(name, raw)
	if err == nil {
		if in.question != nil {
			in.question.ID = "t:" + name
		}
		response, err = f.c.resolve(ctx, f.r, in)
	}
	if errors.Is(err, errWithdrawn) {
		return
	}
	if err != nil {
		f.r.notify(warning(err))
		response = Answer{Action: Decline}.Result()
	}
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, replyLimit)
		_, err := f.c.taskRequest(limited, f.r, updateTask, f.id, map[string]any{"inputResponses": map[string]any{name: response}})
		cancel()
		if err == nil {
			select {
			case f.r.wake <- struct{}{}:
			default:
			}
			return
		}
		f.c.log.DebugContext(ctx, "an answer did not reach the MCP server", "error", err)
		pause(ctx, nil, idlePoll)
	}
}
