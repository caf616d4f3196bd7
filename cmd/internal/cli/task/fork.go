package task

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// ForkCmd is `pawl fork`.
type ForkCmd struct {
	Task      string  `arg:"" complete:"task" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	At        *uint64 `placeholder:"SEQ" help:"Keep what happened up to this event, the end of a step (default: the newest step that went well)."`
	Goal      string  `placeholder:"TEXT" help:"What the new task shall do (default: what the old one should)."`
	RequestID string  `name:"request-id" placeholder:"ID" help:"Makes the command repeatable: the same id shows the same task again."`
	Detach    bool    `short:"d" help:"Print the new task's id and do not wait for it."`
	BudgetFlags
}

// Run forks a task and stays with the new one.
func (c *ForkCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if err := c.check(); err != nil {
		return err
	}
	var at uint64 // 0: the newest
	if c.At != nil {
		if at = *c.At; at == 0 {
			return ui.Usagef("--at 0 is before the first event").Then("name the end of a step (pawl watch TASK --json shows the numbers), or leave --at out")
		}
	}
	id, err := taskID(ctx, s, c.Task)
	if err != nil {
		return err
	}
	req := &executorv1.ForkTaskRequest{Id: id, Seq: at, Goal: strings.TrimSpace(c.Goal), RequestId: c.RequestID}
	req.Budget, req.WaitTimeout = c.over(nil), c.waitTimeout()
	if req.GetRequestId() == "" {
		req.RequestId = uuid.NewString() // so that forking again after a lost connection is harmless
	}
	task, err := admitted(ctx, u, func(ctx context.Context) (*executorv1.Task, error) { return s.Tasks.ForkTask(ctx, req) })
	if err != nil {
		return forkError(err, id, s.Flags())
	}
	if c.Detach {
		return detached(u, s, task)
	}
	from := task.GetForkedFrom()
	if !u.JSON {
		u.Note("%s", "task "+ui.ShortID(task.GetId())+" goes on from event "+strconv.FormatUint(from.GetSeq(), 10)+" of "+ui.ShortID(from.GetTaskId()))
	}
	t := attend(u, s, task.GetId(), from.GetSeq(), u.Err, s.KnownWorkspace(ctx).Alias)
	t.owned = true
	return t.run(ctx)
}

// forkError says where the numbers of events are found.
func forkError(err error, id, flags string) error {
	if !slices.ContainsFunc(errs.From(err).Violations, func(v errs.Violation) bool { return v.Field == "seq" }) {
		return err
	}
	return ui.Usagef("no step of the task ended with that event").
		Then("pawl watch %s%s --json shows the events: give the seq of a STEP_OUTPUT or STEP_ERROR, or leave --at out", ui.ShortID(id), flags)
}
