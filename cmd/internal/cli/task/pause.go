package task

import (
	"context"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// PauseCmd is `pawl pause`.
type PauseCmd struct {
	Task   string `arg:"" complete:"task" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	Reason string `placeholder:"TEXT" help:"Why; kept with the task."`
	Detach bool   `short:"d" help:"Do not wait for a running call to come back."`
}

// Run pauses a task and waits until it stands still.
func (c *PauseCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := taskID(ctx, s, c.Task)
	if err != nil {
		return err
	}
	task, err := s.Tasks.PauseTask(ctx, &executorv1.PauseTaskRequest{Id: id, Reason: c.Reason})
	if err == nil && !c.Detach && !still(task) {
		if !u.JSON {
			u.Note("waiting for %s; nothing new is begun (Ctrl-C leaves, and the task pauses all the same)", underWay(task))
		}
		task, err = await(ctx, s, task, func(t *executorv1.Task) bool { return still(t) || !t.GetPauseRequested() })
	}
	if err != nil {
		return err
	}
	return showPaused(u, s.Flags(), task)
}

// still says that nothing goes on in a task: it has ended, or waits, be it for an answer to a question.
func still(task *executorv1.Task) bool {
	return task.GetEndTime() != nil || task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
}

// underWay is what a pause waits for.
func underWay(task *executorv1.Task) string {
	var tools []string
	for _, step := range task.GetActiveSteps() {
		if step.GetStatus() == executorv1.StepStatus_STEP_STATUS_RUNNING {
			tools = append(tools, step.GetToolId())
		}
	}
	if len(tools) == 0 {
		return "what is under way"
	}
	return "the running call of " + strings.Join(tools, ", ")
}

func showPaused(u *ui.UI, flags string, task *executorv1.Task) error {
	if u.JSON {
		return u.Document(task)
	}
	st, id := u.OutStyle(), ui.ShortID(task.GetId())
	switch {
	case task.GetEndTime() != nil:
		u.Printf("task %s ended before it could be paused: %s\n", id, st.StatusStyle(ui.StatusName(task.GetStatus())))
		return ui.Exit(ui.Failed)
	case !task.GetPauseRequested():
		u.Printf("task %s was unpaused meanwhile\n", id)
	case still(task):
		u.Printf("%s task %s is paused\n", st.Yellow("⏸"), id)
		u.Note("pawl unpause %s%s lets it go on", id, flags)
	default:
		u.Printf("task %s pauses when its running call has come back\n", id)
	}
	return nil
}

// UnpauseCmd is `pawl unpause`.
type UnpauseCmd struct {
	AnswerTarget
}

// Run lets a paused task go on.
func (c *UnpauseCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := taskID(ctx, s, c.Task)
	if err != nil {
		return err
	}
	before, err := s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
	if err != nil {
		return err
	}
	task, err := s.Tasks.ResumeTask(ctx, &executorv1.ResumeTaskRequest{
		Id: id, Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}},
	})
	if err != nil {
		return err
	}
	if c.Detach || !before.GetPauseRequested() {
		return showUnpaused(u, before, task)
	}
	t := attend(u, s, id, before.GetLastSeq(), u.Err, s.KnownWorkspace(ctx).Alias)
	t.open, t.until = waitIDs(task), task.GetLastSeq() // asked before the pause: no event asks again
	return t.run(ctx)
}

func showUnpaused(u *ui.UI, before, task *executorv1.Task) error {
	if !before.GetPauseRequested() && !u.JSON {
		u.Printf("task %s was not paused; it is %s\n", ui.ShortID(task.GetId()), u.OutStyle().StatusStyle(ui.StateName(task)))
		return nil
	}
	return left(u, task)
}

func waitIDs(task *executorv1.Task) []string {
	ids := make([]string, 0, len(task.GetWaits()))
	for _, w := range task.GetWaits() {
		ids = append(ids, w.GetId())
	}
	return ids
}
