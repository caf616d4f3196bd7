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
	// tasksExtension is the extension for tasks since 2026-07-28: the server decides which calls run as tasks, and tasks/get returns questions
	// and results too.
	tasksExtension = "io.modelcontextprotocol/tasks"
	methodUpdate   = "tasks/update"
	// maxTaskID is the longest id of a task that the API accepts.
	maxTaskID = 2000
)

// mcpTask is a task as a server describes it.
type mcpTask struct {
	Task
	poll   time.Duration // the interval of polls; 0 if the server sets none
	fields map[string]json.RawMessage
}

// taskOf returns the task in a result of tools/call, in the form of either era; false if the result holds none. requested reports whether
// the request asked for a task.
func taskOf(fields map[string]json.RawMessage, requested bool) (mcpTask, bool) {
	if stringOf(fields["resultType"]) == "task" {
		return readTask(fields), true
	}
	if !requested || strictjson.Absent(fields["task"]) || !strictjson.Absent(fields["content"]) {
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
			ID: stringOf(fields["taskId"]), Status: stringOf(fields["status"]), Message: Cut(stringOf(fields["statusMessage"])),
			TTL: milliseconds(fields["ttl"], fields["ttlMs"]),
		},
		poll:   milliseconds(fields["pollInterval"], fields["pollIntervalMs"]),
		fields: fields,
	}
}

// milliseconds returns the first value that is a positive number of milliseconds, at most 1000 days; 0 if there is none.
func milliseconds(values ...json.RawMessage) time.Duration {
	const limit = 1000 * 24 * time.Hour
	for _, raw := range values {
		var n float64
		if !strictjson.Absent(raw) && json.Unmarshal(raw, &n) == nil && n > 0 {
			return time.Duration(min(n, float64(limit/time.Millisecond)) * float64(time.Millisecond))
		}
	}
	return 0
}

func (t mcpTask) hasEnded() bool {
	return t.Status == "completed" || t.Status == "failed" || t.Status == "cancelled"
}

// portable reports whether any connection to the server can ask for a task, because there is no session.
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

// getTask returns the state of a task.
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
		return mcpTask{}, sentf(Protocol, "the server was asked for the task %.100q and answered with %.100q", id, t.ID)
	}
	return t, nil
}

// taskResult returns the result or the error of a task that has ended. Before 2026-07-28 this takes a request of its own.
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
	e := &Error{Kind: Answered, MayHaveRun: true, Message: cmp.Or(Cut(memberOf(t.fields["error"], "message")), "the task failed: "+t.Message)}
	_ = json.Unmarshal(code, &e.Code) // 0 if there is none
	return nil, e
}

// taskCancelled returns the error of a task that was cancelled. It is unknown what the task did before.
func taskCancelled(t mcpTask) *Error {
	e := sentf(Interrupted, "%s", strings.TrimSuffix(fmt.Sprintf("the server cancelled the task %.100q: %s", t.ID, t.Message), ": "))
	e.Err = context.Canceled
	return e
}

const (
	// minPoll and maxPoll bound the poll interval that the server sets. If it sets none, the interval grows from firstPoll to idlePoll.
	minPoll, maxPoll    = 50 * time.Millisecond, time.Minute
	firstPoll, idlePoll = 250 * time.Millisecond, 5 * time.Second
	pollLimit           = 30 * time.Second // bounds one poll
	maxPollFailures     = 8                // in a row
	maxResultTries      = 4
)

// follower waits until a task ends.
type follower struct {
	c    *client
	r    *running
	id   string // of the task
	task mcpTask

	interval time.Duration // between polls, if the server sets none
	failures int           // of polls, in a row
	result   chan response // receives the response to a waiting tasks/result, during which older servers ask; nil if none waits

	work   sync.WaitGroup
	inputs map[string]context.CancelCauseFunc // withdraw the questions, by the server's names; since 2026-07-28
}

// followTask waits until a task ends and returns its result. For a new task, it first notifies the caller of the task.
func (c *client) followTask(ctx context.Context, r *running, t mcpTask) (json.RawMessage, error) {
	if t.ID == "" || len(t.ID) > maxTaskID {
		return nil, sentf(Protocol, "the server runs the call as a task whose id is empty, or longer than %d bytes", maxTaskID)
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
		f.notifyState()
	}
	raw, err := f.run(ctx)
	if err != nil && ctx.Err() != nil {
		return f.abandon(ctx)
	}
	return raw, err
}

// notifyState reports the state of the task to the caller.
func (f *follower) notifyState() {
	t := f.task.Task
	t.Portable = f.c.portable()
	f.r.notify(Notification{Task: &t})
}

// isStateKnown reports whether run may wait before the first poll. run polls at once for a task that an earlier call began. Since 2026-07-28 it
// also does so for a task that asks or has ended, because only tasks/get returns the questions and the result.
func (f *follower) isStateKnown() bool {
	return f.r.call.Follow == "" && (!f.c.isModern() || f.task.Status == "working")
}

// run polls the task until it ends, and returns its result. followTask ignores the error if ctx has ended.
func (f *follower) run(ctx context.Context) (json.RawMessage, error) {
	known := f.isStateKnown()
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
		case f.task.hasEnded():
			if raw, err := f.fetchResult(ctx, tries); raw != nil || err != nil {
				return raw, err
			}
			tries++
		case f.task.Status == "input_required":
			f.askInput(ctx)
		}
		select {
		case <-time.After(f.nextDelay()):
		case <-f.r.wake:
		case v := <-f.result:
			if f.result = nil; v.err == nil {
				return v.result, nil
			} // tasks/result failed: the next poll goes on
		case <-f.c.life.Done():
			return nil, f.c.lost(true)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// nextDelay returns how long to wait before the next poll.
func (f *follower) nextDelay() time.Duration {
	if f.task.poll > 0 && f.failures == 0 {
		return min(max(f.task.poll, minPoll), maxPoll)
	}
	d := f.interval
	f.interval = min(d*3/2, idlePoll)
	return d
}

// poll reads the state of the task. It returns an error only if the call must end, with an unknown outcome. After other failures run polls
// again.
func (f *follower) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	t, err := f.c.getTask(ctx, f.r, f.id)
	if err == nil {
		before := f.task
		f.failures, f.task = 0, t
		if before.Status != t.Status || before.Message != t.Message {
			f.interval = firstPoll
			f.notifyState()
		}
		return nil
	}
	e := *As(err)
	final := e.Lost && !f.c.portable()
	if e.MayHaveRun, e.Ended = true, false; e.Kind == Answered {
		final = final || e.Code == mcp.INVALID_PARAMS || e.Code == mcp.METHOD_NOT_FOUND || e.Code == mcp.MISSING_REQUIRED_CLIENT_CAPABILITY
		e.Kind = Protocol
		e.Message = fmt.Sprintf("the MCP server does not report the outcome of the task %.100q: error %d: %s", f.id, e.Code, e.Message)
	}
	if f.failures++; final || f.failures > maxPollFailures || f.c.isDone() {
		return &e
	}
	return nil
}

// fetchResult returns the result or the error of a task that has ended; neither if it should be called again after a pause.
func (f *follower) fetchResult(ctx context.Context, try int) (json.RawMessage, error) {
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

// abandon ends a call before its task has ended. It cancels the task, but returns the result if the task has one by then, except after a
// deadline. If this pool is stopping and another pool can follow the task, abandon leaves the task running.
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
	if err == nil && t.hasEnded() && t.Status != "cancelled" {
		if raw, err := f.c.taskResult(last, f.r, t); err == nil {
			return raw, nil
		}
	}
	return nil, GivenUp(ctx, true)
}

// askInput begins to get the answers that the task needs.
func (f *follower) askInput(ctx context.Context) {
	if f.c.isModern() {
		f.askModernInput(ctx)
		return
	}
	// Servers of older revisions ask by requests of their own while a tasks/result request waits.
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

// askModernInput asks the new questions, and withdraws those that the server no longer asks.
func (f *follower) askModernInput(ctx context.Context) {
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

// answer gets the answer to one question, and sends it until the server has received it. If there is no answer, it declines the question.
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
		_, err := f.c.taskRequest(limited, f.r, methodUpdate, f.id, map[string]any{"inputResponses": map[string]any{name: response}})
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
