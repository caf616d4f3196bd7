package cli

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/follow"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// PauseCmd is `pawl pause`.
type PauseCmd struct {
	Task   string `arg:"" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	Reason string `placeholder:"TEXT" help:"Why; kept with the task."`
	Detach bool   `short:"d" help:"Do not wait for a running call to come back."`
}

// Help is shown by --help.
func (PauseCmd) Help() string {
	return `A running tool call comes back and is recorded; nothing new is begun until pawl unpause. Pausing a paused task changes
nothing.

Examples:

    pawl pause last
    pawl pause 3fa29c01 --reason "the database is being moved"`
}

// Run pauses a task and waits until it stands still.
func (c *PauseCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		client := executorv1.NewExecutorServiceClient(session)
		id, err := taskID(ctx, client, c.Task)
		if err != nil {
			return err
		}
		task, err := client.PauseTask(ctx, &executorv1.PauseTaskRequest{Id: id, Reason: c.Reason})
		if err == nil && !c.Detach && !still(task) {
			task, err = awaitStill(ctx, g, session, client, task)
		}
		if err != nil {
			return err
		}
		return a.showPaused(g, task)
	})
}

// still says that nothing goes on in a task: it has ended, or waits, be it for an answer to a question.
func still(task *executorv1.Task) bool {
	return task.GetEndTime() != nil || task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
}

// awaitStill returns the task once it is paused or has ended.
func awaitStill(ctx context.Context, g *Globals, session *discover.Session, client executorv1.ExecutorServiceClient, task *executorv1.Task) (*executorv1.Task, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	for item := range follow.Task(watching, session, task.GetId(), task.GetLastSeq(), g.again()) {
		if item.Err != nil {
			return nil, item.Err
		}
		if item.Event.GetType() != executorv1.EventType_EVENT_TYPE_FLOW_STOP {
			continue
		}
		now, err := client.GetTask(ctx, &executorv1.GetTaskRequest{Id: task.GetId()})
		if err != nil || still(now) || !now.GetPauseRequested() {
			return now, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return client.GetTask(ctx, &executorv1.GetTaskRequest{Id: task.GetId()})
}

func (a *App) showPaused(g *Globals, task *executorv1.Task) error {
	if g.JSON {
		return render.JSONDocument(a.Console.Out, task)
	}
	st, id := a.outStyle(), render.ShortID(task.GetId())
	switch {
	case task.GetEndTime() != nil:
		a.printf("task %s ended before it could be paused: %s\n", id, st.StatusStyle(render.StatusName(task.GetStatus())))
		return exit.Silent(exit.Failed)
	case !task.GetPauseRequested():
		a.printf("task %s was unpaused meanwhile\n", id)
	case still(task):
		a.printf("%s task %s is paused\n", st.Yellow("⏸"), id)
		a.note("pawl unpause " + id + g.again() + " lets it go on")
	default:
		a.printf("task %s pauses when its running call has come back\n", id)
	}
	return nil
}

// UnpauseCmd is `pawl unpause`.
type UnpauseCmd struct {
	AnswerTarget
}

// Help is shown by --help.
func (UnpauseCmd) Help() string {
	return `The task goes on where it was, and is followed to its next stop, as by pawl run. A task that is not paused stays as it is.

Examples:

    pawl unpause last
    pawl unpause 3fa29c01 --detach`
}

// Run lets a paused task go on.
func (c *UnpauseCmd) Run(ctx context.Context, a *App, g *Globals) error {
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
		task, err := client.ResumeTask(ctx, &executorv1.ResumeTaskRequest{
			Id: id, Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}},
		})
		if err != nil {
			return err
		}
		if c.Detach || !before.GetPauseRequested() {
			return a.showUnpaused(g, before, task)
		}
		t := a.attend(g, session, id, before.GetLastSeq(), a.Console.Err, a.knownFolder(ctx, session).alias)
		t.open, t.until = waitIDs(task), task.GetLastSeq() // asked before the pause: no event asks again
		return t.run(ctx)
	})
}

func (a *App) showUnpaused(g *Globals, before, task *executorv1.Task) error {
	if !before.GetPauseRequested() && !g.JSON {
		a.printf("task %s was not paused; it is %s\n", render.ShortID(task.GetId()), a.outStyle().StatusStyle(render.StateName(task)))
		return nil
	}
	return a.answeredAndLeft(g, task)
}

func waitIDs(task *executorv1.Task) []string {
	ids := make([]string, 0, len(task.GetWaits()))
	for _, w := range task.GetWaits() {
		ids = append(ids, w.GetId())
	}
	return ids
}
