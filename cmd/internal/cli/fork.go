package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// ForkCmd is `pawl fork`.
type ForkCmd struct {
	Task      string  `arg:"" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	At        *uint64 `placeholder:"SEQ" help:"Keep what happened up to this event, the end of a step (default: the newest step that went well)."`
	Goal      string  `placeholder:"TEXT" help:"What the new task shall do (default: what the old one should)."`
	RequestID string  `name:"request-id" placeholder:"ID" help:"Makes the command repeatable: the same id shows the same task again."`
	Detach    bool    `short:"d" help:"Print the new task's id and do not wait for it."`
	BudgetFlags
}

// Help is shown by --help.
func (ForkCmd) Help() string {
	return `Starts a new task that goes on from the end of a step of an old one. What was done up to there is not done again: its
results are reused. Approvals for the rest of the task are not. The old task stays as it is, ended or not. Without --at, what
failed is done again, from the beginning where no step went well; a task that ended well is taken up behind its newest step.
The numbers of events are shown by pawl watch TASK --json.

Examples:

    pawl fork last
    pawl fork 3fa29c01 --at 12 --goal "The same, but write it to summary.md"
    pawl fork last --max-tool-calls 50 --detach`
}

// Run forks a task and stays with the new one.
func (c *ForkCmd) Run(ctx context.Context, a *App, g *Globals) error {
	var at uint64 // 0: the newest
	if c.At != nil {
		if at = *c.At; at == 0 {
			return exit.Usagef("--at 0 is before the first event").Then("name the end of a step (pawl watch TASK --json shows the numbers), or leave --at out")
		}
	}
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		client := executorv1.NewExecutorServiceClient(session)
		id, err := taskID(ctx, client, c.Task)
		if err != nil {
			return err
		}
		req := &executorv1.ForkTaskRequest{Id: id, Seq: at, Goal: strings.TrimSpace(c.Goal), RequestId: c.RequestID}
		req.Budget, req.WaitTimeout = c.over(nil), c.waitTimeout()
		if req.GetRequestId() == "" {
			req.RequestId = uuid.NewString() // so that forking again after a lost connection is harmless
		}
		task, err := admitted(ctx, a, func(ctx context.Context) (*executorv1.Task, error) { return client.ForkTask(ctx, req) })
		if err != nil {
			return forkError(err, id, g)
		}
		if c.Detach {
			return a.detached(g, task)
		}
		from := task.GetForkedFrom()
		if !g.JSON {
			a.note("task " + render.ShortID(task.GetId()) + " goes on from event " + strconv.FormatUint(from.GetSeq(), 10) + " of " + render.ShortID(from.GetTaskId()))
		}
		t := a.attend(g, session, task.GetId(), from.GetSeq(), a.Console.Err, a.knownFolder(ctx, session).alias)
		t.owned = true
		return t.run(ctx)
	})
}

// forkError says where the numbers of events are found.
func forkError(err error, id string, g *Globals) error {
	if !slices.ContainsFunc(errs.From(err).Violations, func(v errs.Violation) bool { return v.Field == "seq" }) {
		return err
	}
	return exit.Usagef("no step of the task ended with that event").
		Then("pawl watch %s%s --json shows the events: give the seq of a STEP_OUTPUT or STEP_ERROR, or leave --at out", render.ShortID(id), g.again())
}
