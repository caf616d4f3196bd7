package cli

import (
	"context"
	"slices"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// DeleteCmd is `pawl delete`.
type DeleteCmd struct {
	Tasks []string `arg:"" name:"task" help:"The tasks: ids, 6 or more characters of their beginning or end, or last."`
}

// Help is shown by --help.
func (DeleteCmd) Help() string {
	return `Deletes tasks that have ended, with all that happened in them; there is no way back. Forks of them stay whole. Ended tasks
are deleted after a while by themselves (pawl up --retention).

Examples:

    pawl delete last
    pawl export 3fa29c01 -o task.json && pawl delete 3fa29c01
    pawl delete 3fa29c01 77b0e1d4`
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
func (c *DeleteCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		client := executorv1.NewExecutorServiceClient(session)
		var ids []string // all of them first: the last task is another one once it is deleted
		for _, ref := range c.Tasks {
			id, err := taskID(ctx, client, ref)
			if err != nil {
				return err
			}
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		view, failed := deletedView{Deleted: []string{}}, []notDeleted{}
		for _, id := range ids {
			if _, err := client.DeleteTask(ctx, &executorv1.DeleteTaskRequest{Id: id}); err != nil {
				failed = append(failed, notDeleted{id, err})
				continue
			}
			view.Deleted = append(view.Deleted, id)
			a.say(g, "task %s is deleted", render.ShortID(id))
		}
		return a.deleted(g, view, failed, len(ids))
	})
}

// deleted sums up. The only failure is told as it is; of several, each is told, and the sum.
func (a *App) deleted(g *Globals, view deletedView, failed []notDeleted, all int) error {
	if g.JSON {
		if err := render.JSONValue(a.Console.Out, view); err != nil {
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
		a.warn("task %s: %s", render.ShortID(f.id), exit.From(f.err).Message)
	}
	return exit.Newf("%d of %d tasks are not deleted", len(failed), all)
}
