package cli

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/follow"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// CancelCmd is `pawl cancel`.
type CancelCmd struct {
	Task   string `arg:"" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	Reason string `placeholder:"TEXT" help:"Why; kept with the task."`
	Detach bool   `short:"d" help:"Do not wait for a running call to come back."`
}

// Help is shown by --help.
func (CancelCmd) Help() string {
	return `A running tool call is told to stop, and what came of it is recorded; then the task ends. Cancelling a task that has
ended changes nothing.

Examples:

    pawl cancel last
    pawl cancel 3fa29c01 --reason "wrong folder"`
}

// Run cancels a task and waits for its end.
func (c *CancelCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		client := executorv1.NewExecutorServiceClient(session)
		id, err := taskID(ctx, client, c.Task)
		if err != nil {
			return err
		}
		before, err := client.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
		if err != nil {
			return err
		}
		task, err := client.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: id, Reason: c.Reason})
		if err == nil && !c.Detach && task.GetEndTime() == nil {
			task, err = awaitEnd(ctx, g, session, client, task)
		}
		if err != nil {
			return err
		}
		return a.showCancelled(g, task, before.GetEndTime() != nil)
	})
}

// awaitEnd returns the task once it has ended.
func awaitEnd(ctx context.Context, g *Globals, session *discover.Session, client executorv1.ExecutorServiceClient, task *executorv1.Task) (*executorv1.Task, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for item := range follow.Task(ctx, session, task.GetId(), task.GetLastSeq(), g.again()) {
		if item.Err != nil {
			return nil, item.Err
		}
	}
	return client.GetTask(ctx, &executorv1.GetTaskRequest{Id: task.GetId()})
}

func (a *App) showCancelled(g *Globals, task *executorv1.Task, before bool) error {
	if g.JSON {
		return render.JSONDocument(a.Console.Out, task)
	}
	st, id, state := a.outStyle(), render.ShortID(task.GetId()), render.StatusName(task.GetStatus())
	switch {
	case before:
		a.printf("task %s had ended before: %s\n", id, st.StatusStyle(state))
	case task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED:
		a.printf("%s task %s is cancelled\n", st.Yellow("⊘"), id)
	case task.GetEndTime() != nil:
		a.printf("task %s ended before it could be cancelled: %s\n", id, st.StatusStyle(state))
		return exit.Silent(exit.Failed)
	default:
		a.printf("task %s ends when its running call has come back\n", id)
	}
	return nil
}
