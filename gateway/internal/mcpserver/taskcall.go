package mcpserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net"
	"net/http"
	"slices"

	"google.golang.org/grpc/codes"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// taskCall is a request that follows a task: the call of a tool, or tasks/result. The task goes on without it.
type taskCall struct {
	*request
	id       string            // of the task
	created  bool              // by this request: to cancel the request cancels the task
	hash     string            // of the tool and its arguments
	progress string            // the client's progress token, as JSON; empty: none
	steps    int               // that the client was told of
	asked    map[string]bool   // waits that the client's user was asked about, or has answered
	meta     map[string]any    // _meta of messages about the task, or nil
	extra    chan func() error // see events.follow; holds one
}

func (q *request) newTaskCall(id string, created bool) *taskCall {
	hash := sha256.Sum256([]byte(q.params.text("name") + "\x00" + strictjson.Compact(string(q.params["arguments"]))))
	return &taskCall{
		request: q, id: id, created: created, hash: hex.EncodeToString(hash[:]), progress: string(q.meta["progressToken"]), asked: map[string]bool{},
		extra: make(chan func() error, 1),
	}
}

// continueTask passes on the answers to the questions of an input_required result, and follows the task again.
func (q *request) continueTask() error {
	c := q.newTaskCall("", false)
	var asked question
	if !q.signer.open(stateToken, q.state, &asked) || asked.User != q.User || asked.Hash != c.hash || asked.Task == "" {
		return errorf(invalidParams, "params.requestState is none of this call; make the call again without it")
	}
	c.id = asked.Task
	task, left, err := q.answerWaits(c.id, c.asked)
	switch {
	case err != nil:
		return err
	case left:
		return c.reply(quote(c.waiting(task)))
	}
	return c.follow()
}

// follow sends the steps of the task as progress until it ends or waits for a person whom the client cannot ask, and answers with the result.
func (c *taskCall) follow() error {
	task, err := c.executor.GetTask(c.Context(), &executorv1.GetTaskRequest{Id: c.id})
	if err != nil {
		return err
	}
	if c.client.Nonce != "" {
		key := c.callID(c.request.id)
		c.calls.Store(key, c)
		defer c.calls.CompareAndDelete(key, c)
	}
	if done, err := c.settle(task); done || err != nil {
		return err
	}
	err = events[*executorv1.ExecutorEvent]{
		open: func(ctx context.Context) (func() (*executorv1.ExecutorEvent, error), error) {
			stream, err := c.executor.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: c.id, AfterSeq: task.GetLastSeq()})
			return stream.Recv, err
		},
		handle: c.handle,
		leave:  func() {},
	}.follow(c.request, c.extra)
	if err != nil && errs.From(err).Code == codes.Unavailable {
		e := errs.From(err).With("task_id", c.id)
		e.Message += "; the task goes on without this request: follow it with resume_task and the task_id " + c.id + " instead of running another"
		return e
	}
	return err
}

// handle reports a step, and looks at the task when it waits or has ended.
func (c *taskCall) handle(e *executorv1.ExecutorEvent, err error) (done bool, _ error) {
	if err != nil {
		return true, err
	}
	switch e.GetType() {
	case executorv1.EventType_EVENT_TYPE_STEP_INPUT:
		if c.steps++; c.progress != "" {
			c.out.send(notification("", "notifications/progress", map[string]any{
				"progressToken": jsonOf(c.progress), "progress": c.steps, "message": "Calls " + e.GetFlow().GetStepName(),
			}))
		}
	case executorv1.EventType_EVENT_TYPE_FLOW_STOP, executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.EventType_EVENT_TYPE_FLOW_FAILED,
		executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
		task, err := c.executor.GetTask(c.Context(), &executorv1.GetTaskRequest{Id: c.id})
		if err != nil {
			return true, err
		}
		return c.settle(task)
	}
	return false, nil
}

// settle answers if the task has ended. If it waits, it asks the client's user, or answers with what it waits for if the client cannot ask.
func (c *taskCall) settle(task *executorv1.Task) (done bool, err error) {
	switch {
	case ended(task):
		return true, c.reply(quote(c.result(task)))
	case task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING:
		return false, nil
	}
	requests, all := c.questions(task, c.asked)
	switch {
	case !all:
		return true, c.reply(quote(c.waiting(task)))
	case len(requests) == 0: // the answers take effect in a moment
		return false, nil
	case c.modern:
		state := c.signer.sign(stateToken, question{User: c.User, Task: c.id, Hash: c.hash})
		return true, c.reply(quote(map[string]any{"resultType": "input_required", "requestState": state, "inputRequests": requests}))
	case !c.out.open():
		return true, c.reply(quote(c.waiting(task)))
	}
	for _, wait := range slices.Sorted(maps.Keys(requests)) {
		c.asked[wait] = true
		params := requests[wait].Params
		if c.meta != nil {
			params["_meta"] = c.meta
		}
		id := c.signer.sign(questionToken, question{User: c.User, Task: c.id, Input: wait, Call: c.callID(c.request.id)})
		c.out.send(notification(id, requests[wait].Method, params))
	}
	return false, nil
}

// dismiss answers the request with what the task waits for, because the user leaves a question open.
func (c *taskCall) dismiss(task *executorv1.Task) {
	select {
	case c.extra <- func() error { return c.reply(quote(c.waiting(task))) }:
	default: // it is about to be answered
	}
}

func ended(task *executorv1.Task) bool {
	switch task.GetStatus() {
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR, executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED:
		return true
	}
	return false
}

// result is the result of a task that has ended.
func (c *taskCall) result(task *executorv1.Task) map[string]any {
	text := task.GetFullAnswer()
	switch task.GetStatus() {
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR:
		text = joinLines(text, "The task failed: "+task.GetError().GetErrMsg())
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED:
		text = joinLines(text, "The task was cancelled.")
	}
	return c.describe(task, text, task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS)
}

// waiting is the result if the client's user has not answered what the task waits for.
func (c *taskCall) waiting(task *executorv1.Task) map[string]any {
	return c.describe(task, c.waitingText(task)+" The tool resume_task with this task_id then follows the task to its end.", false)
}

// waitingText says what a task waits for, and where it is answered.
func (q *request) waitingText(task *executorv1.Task) string {
	text, command := "The task "+task.GetId()+" waits for a person:", ""
	for _, w := range task.GetWaits() {
		text += "\n- " + w.GetId() + ": " + questionOf(w)
		command = cmp.Or(command, answerCommands[w.GetKind()])
	}
	return text + "\n\nIf your client cannot ask you: " + q.howToAnswer(cmp.Or(command, "show"), task.GetId())
}

// answerCommands are the commands of pawl that answer waits.
var answerCommands = map[executorv1.WaitKind]string{
	executorv1.WaitKind_WAIT_KIND_APPROVAL: "approve", executorv1.WaitKind_WAIT_KIND_PLAN: "approve", executorv1.WaitKind_WAIT_KIND_INPUT: "input",
	executorv1.WaitKind_WAIT_KIND_PARAMS: "params", executorv1.WaitKind_WAIT_KIND_OUTCOME: "outcome", executorv1.WaitKind_WAIT_KIND_PAUSE: "unpause",
}

// howToAnswer says where a person answers what a task waits for, outside the client.
func (q *request) howToAnswer(command, task string) string {
	text := "Answer with `pawl " + command + " " + task + "` (`pawl show " + task + "` lists the commands)"
	if at, ok := q.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || at.Network() == "tcp" { // else the client does not use HTTP
		text += ", or by POST to " + origin(q.Request) + "/v1/tasks/" + task + ":resume"
	}
	return text + "."
}

func (c *taskCall) describe(task *executorv1.Task, text string, failed bool) map[string]any {
	meta := map[string]any{"pawl.dev/task": map[string]string{"task_id": task.GetId(), "status": statusName(task)}}
	maps.Copy(meta, c.meta)
	return map[string]any{"content": textContent(text), "isError": failed, "_meta": meta}
}

func joinLines(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n\n" + b
}
