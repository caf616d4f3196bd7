package task

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
)

// WatchCmd is `pawl watch`.
type WatchCmd struct {
	Task  string `arg:"" complete:"task" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	After uint64 `placeholder:"N" help:"Begin after this event."`
}

// Run follows a task.
func (c *WatchCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := taskID(ctx, s, c.Task)
	if err != nil {
		return err
	}
	t := attend(u, s, id, c.After, u.Out, s.KnownWorkspace(ctx).Alias)
	t.past = true
	return t.run(ctx)
}
