package cli

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/render"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// ModelsCmd is `pawl models`.
type ModelsCmd struct{}

// Help is shown by --help.
func (ModelsCmd) Help() string {
	return `Examples:

    pawl models
    pawl run --model offline "How many Go files are there?"`
}

// Run lists models.
func (c *ModelsCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		list, err := plannerv1.NewPlannerServiceClient(session).ListModels(ctx, &plannerv1.ListModelsRequest{})
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, list)
		}
		t := a.table()
		t.Row("MODEL", "", "WHAT")
		for _, m := range list.GetModels() {
			mark := ""
			if m.GetIsDefault() {
				mark = "default"
			}
			t.Row(m.GetName(), mark, m.GetDescription())
		}
		return t.Write(a.Console.Out)
	})
}
