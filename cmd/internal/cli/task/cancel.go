package task

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// CancelCmd is `pawl cancel`.
type CancelCmd struct {
	Task   string `arg:"" complete:"task" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	Reason string `placeholder:"TEXT" help:"Why; kept with the task."`
	Detach bool   `short:"d" help:"Do not wait for a running call to come back."`
}

// Run cancels a task and waits for its end.
func (c *CancelCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := taskID(ctx, s, c.Task)
	if err != nil {
		return err
	}
	before, err := s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
	if err != nil {
		return err
	}
	task, err := s.Tasks.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: id, Reason: c.Reason})
	if err == nil && !c.Detach && task.GetEndTime() == nil {
		task, err = await(ctx, s, task, func(*executorv1.Task) bool { return false })
	}
	if err != nil {
		return err
	}
	return showCancelled(u, task, before.GetEndTime() != nil)
}

func showCancelled(u *ui.UI, task *executorv1.Task, before bool) error {
	if u.JSON {
		return u.Document(task)
	}
	st, id, state := u.OutStyle(), ui.ShortID(task.GetId()), ui.StatusName(task.GetStatus())
	switch {
	case before:
		u.Printf("task %s had ended before: %s\n", id, st.StatusStyle(state))
	case task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED:
		u.Printf("%s task %s is cancelled\n", st.Yellow("⊘"), id)
	case task.GetEndTime() != nil:
		u.Printf("task %s ended before it could be cancelled: %s\n", id, st.StatusStyle(state))
		return ui.Exit(ui.Failed)
	default:
		u.Printf("task %s ends when its running call has come back\n", id)
	}
	return nil
}
