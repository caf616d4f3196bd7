package mcpserver

import (
	"context"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	// tasksExtension is the extension for tasks, since 2026-07-28. Before, they were part of 2025-11-25.
	tasksExtension = "io.modelcontextprotocol/tasks"
	// relatedTask is the member of _meta that names the task of a message, in 2025-11-25.
	relatedTask = "io.modelcontextprotocol/related-task"
	// pollInterval is how often clients should ask for the status of a task, in milliseconds.
	pollInterval = 1000
	// timeFormat is that of times in MCP tasks.
	timeFormat = "2006-01-02T15:04:05.000Z07:00"
)

// mcpTask adds a task as MCP describes it to the members of more.
func (q *request) mcpTask(task *executorv1.Task, more map[string]any) map[string]any {
	if more == nil {
		more = map[string]any{}
	}
	more["taskId"], more["status"] = task.GetId(), q.mcpStatus(task)
	more["createdAt"], more["lastUpdatedAt"] = mcpTime(task.GetCreateTime().AsTime()), mcpTime(task.GetUpdateTime().AsTime())
	if q.modern {
		more["ttlMs"], more["pollIntervalMs"] = nil, pollInterval
	} else {
		more["ttl"], more["pollInterval"] = nil, pollInterval
	}
	switch message := task.GetError().GetErrMsg(); {
	case message != "":
		more["statusMessage"] = message
	case task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING:
		more["statusMessage"] = q.waitingText(task)
	case task.GetStatusReason() != "":
		more["statusMessage"] = task.GetStatusReason()
	}
	return more
}

func mcpTime(t time.Time) string { return t.UTC().Format(timeFormat) }

// mcpStatus is a task's status as MCP names it. A task that failed has completed with an error as its result since 2026-07-28.
func (q *request) mcpStatus(task *executorv1.Task) string {
	switch {
	case task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, q.modern && task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR:
		return "completed"
	case task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR:
		return "failed"
	case task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED, task.GetCancelRequested(): // it ends with the running call
		return "cancelled"
	case task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING:
		return "input_required"
	}
	return "working"
}

// mcpTaskOf returns the task that a request names. A client without the extension that the revision asks for gets the error for that.
func (q *request) mcpTaskOf() (*executorv1.Task, error) {
	if q.modern && !q.client.Tasks {
		e := errorf(missingCapability, "tasks are for clients that declare the extension %s", tasksExtension)
		e.Data = map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: struct{}{}}}}
		return nil, e
	}
	return q.executor.GetTask(q.Context(), &executorv1.GetTaskRequest{Id: q.params.text("taskId")})
}

// taskStatus serves tasks/get. Since 2026-07-28 it also returns the result, and what the task asks.
func (q *request) taskStatus() error {
	task, err := q.mcpTaskOf()
	if err != nil {
		return err
	}
	result := q.mcpTask(task, nil)
	if !q.modern {
		return q.reply(quote(result))
	}
	switch result["status"] {
	case "completed":
		result["result"] = q.newTaskCall(task.GetId(), false).result(task)
	case "input_required":
		if requests, all := q.questions(task, nil); all {
			result["inputRequests"] = requests
		}
	}
	return q.reply(quote(result))
}

// taskResult serves tasks/result, until 2025-11-25: it follows the task, and asks what it asks.
func (q *request) taskResult() error {
	c := q.newTaskCall(q.params.text("taskId"), false)
	c.meta = map[string]any{relatedTask: map[string]string{"taskId": c.id}}
	return c.follow()
}

// endTask serves tasks/cancel.
func (q *request) endTask() error {
	task, err := q.mcpTaskOf()
	switch {
	case err != nil:
		return err
	case ended(task) && !q.modern:
		return errorf(invalidParams, "the task %s has ended already", task.GetId())
	}
	task, err = q.executor.CancelTask(q.Context(), &executorv1.CancelTaskRequest{Id: task.GetId(), Reason: "cancelled by the MCP client"})
	switch {
	case err != nil:
		return err
	case q.modern:
		return q.empty()
	}
	return q.reply(quote(q.mcpTask(task, nil)))
}

// updateTask serves tasks/update: it passes on answers to what the task asks. Others are ignored.
func (q *request) updateTask() error {
	task, err := q.mcpTaskOf()
	if err != nil {
		return err
	}
	if _, _, err := q.answerWaits(task.GetId(), map[string]bool{}); err != nil {
		return err
	}
	return q.empty()
}

// taskList serves tasks/list, until 2025-11-25.
func (q *request) taskList() error {
	page, err := q.executor.ListTasks(q.Context(), &executorv1.ListTasksRequest{PageToken: q.params.text("cursor")})
	if err != nil {
		return err
	}
	tasks := make([]any, 0, len(page.GetTasks()))
	for _, task := range page.GetTasks() {
		tasks = append(tasks, q.mcpTask(task, nil))
	}
	result := map[string]any{"tasks": tasks}
	if page.GetNextPageToken() != "" {
		result["nextCursor"] = page.GetNextPageToken()
	}
	return q.reply(quote(result))
}

// cancelled ends a request that the client has cancelled: with the task if the request created it.
func (c *taskCall) cancelled(ctx context.Context, reason string) {
	if c.created {
		_, _ = c.executor.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: c.id, Reason: reason}) // it may have ended
		return
	}
	if task, err := c.executor.GetTask(ctx, &executorv1.GetTaskRequest{Id: c.id}); err == nil {
		c.dismiss(task)
	}
}
