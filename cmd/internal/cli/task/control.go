package task

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// StopFlags name the task to cancel or pause, and the reason.
type StopFlags struct {
	OneTask
	Reason string `placeholder:"TEXT" help:"Why; kept with the task."`
	Detach bool   `short:"d" help:"Do not wait for a running call to end."`
}

// CancelCmd is `pawl cancel`.
type CancelCmd struct {
	StopFlags
	Subtask string `placeholder:"ID" help:"Cancel only this subtask and those that depend on it (pawl show lists them)."`
}

// Run cancels a task and, without --detach, waits for its end.
func (c *CancelCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	before, err := c.get(ctx, s)
	if err != nil {
		return err
	}
	task, err := s.Tasks.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: before.GetId(), Reason: c.Reason, SubtaskId: c.Subtask})
	if err == nil && c.Subtask != "" {
		return c.showSubtask(ctx, u, s, before)
	}
	if err == nil && !c.Detach && task.GetEndTime() == nil {
		task, err = await(ctx, s, task, func(*executorv1.ExecutorEvent) bool { return false })
	}
	if err != nil || u.JSON {
		return u.Show(task, err, nil)
	}
	st, id, state := u.OutStyle(), ui.ShortID(task.GetId()), ui.StatusName(task.GetStatus())
	switch {
	case before.GetEndTime() != nil:
		u.Printf("task %s had already ended: %s\n", id, st.StatusStyle(state))
	case task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED:
		u.Printf("%s task %s is cancelled\n", st.Yellow("⊘"), id)
	case task.GetEndTime() != nil:
		u.Printf("task %s ended before it could be cancelled: %s\n", id, st.StatusStyle(state))
		return ui.Exit(ui.Failed)
	default:
		u.Printf("task %s ends when its running call ends\n", id)
	}
	return nil
}

// showSubtask prints how the subtask ended and, without --detach, waits for that. before is the task before the request.
func (c *CancelCmd) showSubtask(ctx context.Context, u *ui.UI, s *discover.Session, before *executorv1.Task) error {
	name := "subtask " + ui.Line(c.Subtask) + " of task " + ui.ShortID(before.GetId())
	if c.Detach {
		return u.Result(before, nil, "%s ends when its running call ends", name)
	}
	status := inProgress
	task, err := await(ctx, s, before, func(ev *executorv1.ExecutorEvent) bool {
		if ev.GetSubtaskId() == c.Subtask {
			status = max(status, ev.GetSubtaskChanged().GetTo())
		}
		return status > inProgress
	})
	if status == executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED {
		return u.Result(task, err, "%s %s is cancelled, and so are those that depend on it", u.OutStyle().Yellow("⊘"), name)
	}
	state := ui.EnumName(status)
	if status == inProgress { // it ended with its task
		state = ui.StateName(task)
	}
	return cmp.Or(u.Result(task, err, "%s ended before it could be cancelled: %s", name, state), error(ui.Exit(ui.Failed)))
}

// PauseCmd is `pawl pause`.
type PauseCmd struct{ StopFlags }

// Run pauses a task and, without --detach, waits until it has stopped.
func (c *PauseCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	task, err := s.Tasks.PauseTask(ctx, &executorv1.PauseTaskRequest{Id: id, Reason: c.Reason})
	if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_TASK_ENDED {
		return ui.AsError(err).Then("pawl show %s%s", ui.ShortID(id), s.Flags())
	}
	if err == nil && !c.Detach && !stopped(task) {
		if !u.JSON {
			u.Note("waiting for %s; nothing new starts (Ctrl-C leaves, and the task still pauses)", runningCalls(task))
		}
		task, err = await(ctx, s, task, isStop)
	}
	if err != nil || u.JSON {
		return u.Show(task, err, nil)
	}
	st, id := u.OutStyle(), ui.ShortID(id)
	switch {
	case task.GetEndTime() != nil:
		u.Printf("task %s ended before it could be paused: %s\n", id, st.StatusStyle(ui.StatusName(task.GetStatus())))
		return ui.Exit(ui.Failed)
	case !task.GetPauseRequested():
		u.Printf("task %s was unpaused meanwhile\n", id)
	case stopped(task):
		u.Printf("%s task %s is paused\n", st.Yellow("⏸"), id)
		u.Note("pawl unpause %s%s continues it", id, s.Flags())
	default:
		u.Printf("task %s pauses when its running call ends\n", id)
	}
	return nil
}

// stopped reports whether the task has ended or waits.
func stopped(task *executorv1.Task) bool {
	return task.GetEndTime() != nil || task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
}

// runningCalls names the calls that a pause waits for.
func runningCalls(task *executorv1.Task) string {
	var tools []string
	for _, step := range task.GetActiveSteps() {
		if step.GetStatus() == executorv1.StepStatus_STEP_STATUS_RUNNING {
			tools = append(tools, step.GetToolId())
		}
	}
	if len(tools) == 0 {
		return "the current work"
	}
	return "the running call of " + strings.Join(tools, ", ")
}

// UnpauseCmd is `pawl unpause`.
type UnpauseCmd struct {
	AnswerTarget
}

// Run continues a paused task.
func (c *UnpauseCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	before, err := c.get(ctx, s)
	if err != nil {
		return err
	}
	req := unpause()
	req.Id = before.GetId()
	task, err := resume(ctx, s, before, req)
	switch {
	case err != nil:
		return err
	case !before.GetPauseRequested():
		return u.Result(task, nil, "task %s was not paused; it is %s", ui.ShortID(task.GetId()), u.OutStyle().StatusStyle(ui.StateName(task)))
	case c.Detach:
		return showState(u, task)
	}
	t := newWatcher(u, s, task.GetId(), before.GetLastSeq(), u.Err, s.KnownWorkspace(ctx).TaskAlias)
	t.openWaits, t.waitsSeq = waitIDs(task.GetWaits()), task.GetLastSeq() // no new event announces waits that were open before the pause
	return t.run(ctx)
}

func waitIDs(waits []*executorv1.Wait) []string {
	ids := make([]string, 0, len(waits))
	for _, w := range waits {
		ids = append(ids, w.GetId())
	}
	return ids
}

// DeleteCmd is `pawl delete`.
type DeleteCmd struct {
	Tasks []string `arg:"" name:"task" complete:"task" help:"The tasks: ids, 6 or more characters of their beginning or end, or last (the newest)."`
}

// Run deletes tasks. If one cannot be deleted, it goes on with the others.
func (c *DeleteCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	var ids []string // resolved before the first deletion, which would change the meaning of "last"
	for _, ref := range c.Tasks {
		id, err := taskID(ctx, s, ref)
		if err != nil {
			return err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	deleted := []string{}
	var single error // the error of the only task
	for _, id := range ids {
		_, err := s.Tasks.DeleteTask(ctx, &executorv1.DeleteTaskRequest{Id: id})
		switch {
		case err == nil:
			deleted = append(deleted, id)
			u.Say("task %s is deleted", ui.ShortID(id))
		case len(ids) == 1:
			single = err
		default:
			u.Warn("task %s: %s", ui.ShortID(id), ui.AsError(err).Message)
		}
	}
	if u.JSON {
		if err := u.Document(map[string][]string{"deleted": deleted}); err != nil {
			return err
		}
	}
	if failed := len(ids) - len(deleted); failed > 0 && single == nil {
		return ui.Errorf("%d of %d tasks are not deleted", failed, len(ids)).Then("the warnings say why; pawl cancel TASK ends a task that has not ended")
	}
	return single
}

// ExportCmd is `pawl export`.
type ExportCmd struct {
	OneTask
	Output string `short:"o" type:"path" placeholder:"FILE" help:"Write to this file, which appears once it is complete (default: standard output)."`
}

// Run exports a task.
func (c *ExportCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.Tasks.ExportTask(ctx, &executorv1.ExportTaskRequest{Id: id})
	if err != nil {
		return err
	}
	n, err := u.Export(c.Output, func() ([]byte, error) {
		piece, err := stream.Recv()
		return piece.GetData(), err
	})
	if c.Output == "" {
		return err
	}
	return u.Result(map[string]any{"task": id, "file": c.Output, "bytes": n}, err, "task %s is exported to %s (%s)", ui.ShortID(id), ui.Line(c.Output), ui.Bytes(n))
}
