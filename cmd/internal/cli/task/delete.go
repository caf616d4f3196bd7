package task

import (
	"context"
	"slices"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// DeleteCmd is `pawl delete`.
type DeleteCmd struct {
	Tasks []string `arg:"" name:"task" complete:"task" help:"The tasks: ids, 6 or more characters of their beginning or end, or last."`
}

// deletedView is what --json prints.
type deletedView struct {
	Deleted []string `json:"deleted"`
}

type notDeleted struct {
	id  string
	err error
}

// Run deletes tasks; one that cannot be deleted holds up no other.
func (c *DeleteCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	var ids []string // all of them first: the last task is another one once it is deleted
	for _, ref := range c.Tasks {
		id, err := taskID(ctx, s, ref)
		if err != nil {
			return err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	view, failed := deletedView{Deleted: []string{}}, []notDeleted{}
	for _, id := range ids {
		if _, err := s.Tasks.DeleteTask(ctx, &executorv1.DeleteTaskRequest{Id: id}); err != nil {
			failed = append(failed, notDeleted{id, err})
			continue
		}
		view.Deleted = append(view.Deleted, id)
		u.Say("task %s is deleted", ui.ShortID(id))
	}
	return deleted(u, view, failed, len(ids))
}

// deleted sums up. The only failure is told as it is; of several, each is told, and the sum.
func deleted(u *ui.UI, view deletedView, failed []notDeleted, all int) error {
	if u.JSON {
		if err := u.Document(view); err != nil {
			return err
		}
	}
	switch {
	case len(failed) == 0:
		return nil
	case all == 1:
		return failed[0].err
	}
	for _, f := range failed {
		u.Warn("task %s: %s", ui.ShortID(f.id), ui.AsError(f.err).Message)
	}
	return ui.Errorf("%d of %d tasks are not deleted", len(failed), all)
}
