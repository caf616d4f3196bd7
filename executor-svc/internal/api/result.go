package api

import (
	"cmp"
	"context"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/view"
)

// GetTaskResult implements ExecutorService.
func (s *Tasks) GetTaskResult(ctx context.Context, req *executorv1.GetTaskResultRequest) (*executorv1.TaskResult, error) {
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	task := view.Task(t)
	out := &executorv1.TaskResult{
		TaskId: t.ID, Success: task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, Status: task.GetStatus(), Error: task.GetError(),
	}
	var log history.Log
	var last []journal.Record
	err = s.records(ctx, t.ID, func(r journal.Record) {
		log.Add(r.Record)
		out.FilesChanged = append(out.FilesChanged, view.FileChanges(r.Record)...)
		last = []journal.Record{r}
	})
	if err != nil {
		return nil, err
	}
	end := cmp.Or(t.Checkpoint.GetEndTime(), time.Now().UnixNano())
	out.Response, out.Duration = cmp.Or(view.FullAnswer(last), t.Checkpoint.GetError().GetErrMsg()), view.Duration(end-t.Head.GetCreateTime())
	out.Plan = view.Plan(&log)
	for _, e := range log.Entries {
		out.ToolCalls = append(out.ToolCalls, view.Step(t, e))
	}
	return out, nil
}
