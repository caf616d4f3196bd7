package cli

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// WatchCmd is `pawl watch`.
type WatchCmd struct {
	Task  string `arg:"" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	After uint64 `placeholder:"N" help:"Begin after this event."`
}

// Help is shown by --help.
func (WatchCmd) Help() string {
	return `Shows what happened so far and what happens until the task ends, over restarts of the server too. Where the task waits
for a person and there is a terminal, the question is put there, as by pawl run; otherwise it says how to answer and waits
along. Ctrl-C leaves, and the task goes on.

Exit codes: 0 done, 1 failed, 2 cancelled or left.

Examples:

    pawl watch last
    pawl watch 3fa29c01 --after 12
    pawl watch last --json | jq .type`
}

// Run follows a task.
func (c *WatchCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		id, err := taskID(ctx, executorv1.NewExecutorServiceClient(session), c.Task)
		if err != nil {
			return err
		}
		t := a.attend(g, session, id, c.After, a.Console.Out, a.knownFolder(ctx, session).alias)
		t.past = true
		return t.run(ctx)
	})
}
