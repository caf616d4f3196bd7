package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

const (
	// tasksExtension is what tasks became in 2026-07-28: the server decides which call is one, and tasks/get carries all.
	tasksExtension = "io.modelcontextprotocol/tasks"
	updateTask     = "tasks/update"
	// maxTaskID is the longest name of a task, as the contract has it.
	maxTaskID = 2000
)

// mcpTask is a task as a server describes it.
type mcpTask struct {
	Task
	poll   time.Duration // 0 where the server does not say
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
		return mcpTask{}, protocolError("the server's answer to tasks/get cannot be read: %w", err)
	}
	t := readTask(fields)
	if t.ID != id {
		return mcpTask{}, protocolError("the server answered with the task %.100q when asked for %.100q", t.ID, id)
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
		e := protocolError("the task %.100q is completed, but has no result", t.ID)
		e.Ended = true
		return nil, e
	}
	code, _ := strictjson.Member(t.fields["error"], "code")
	e := &Error{Kind: Answered, Sent: true, Message: cmp.Or(cut(memberOf(t.fields["error"], "message")), "the task failed: "+t.Message)}
	_ = json.Unmarshal(code, &e.Code) // 0 if there is none
	return nil, e
}

// taskCancelled is the error of a task that was cancelled. How far it got is not known.
func taskCancelled(t mcpTask) *Error {
	message := fmt.Sprintf("the server cancelled the task %.100q", t.ID)
	if t.Message != "" {
		message += ": " + t.Message
	}
	return &Error{Kind: Interrupted, Sent: true, Message: message, Err: context.Canceled}
}
