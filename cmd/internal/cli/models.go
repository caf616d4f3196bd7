package cli

import (
	"context"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/render"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// ModelsCmd is `pawl models`.
type ModelsCmd struct{}

// Help is shown by --help.
func (ModelsCmd) Help() string {
	return `Examples:

    pawl models
    PAWL_MODELS=models.yaml pawl models     # named models are in a file: docs/models.md
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
		t.Row("MODEL", "USE", "WHAT")
		for _, m := range list.GetModels() {
			t.Row(m.GetName(), modelUse(m), m.GetDescription())
		}
		return t.Write(a.Console.Out)
	})
}

// modelUse says what a model is good for.
func modelUse(m *plannerv1.Model) string {
	var uses []string
	for _, of := range []struct {
		can, first bool
		what       string
	}{{m.GetCanPlan(), m.GetIsDefault(), "plans"}, {m.GetCanGenerate(), m.GetIsGenerateDefault(), "answers"}} {
		switch {
		case of.can && of.first:
			uses = append(uses, of.what+" (default)")
		case of.can:
			uses = append(uses, of.what)
		}
	}
	return strings.Join(uses, ", ")
}

// warnOfModel says that a server may have a model asked that is not there. Where models cannot be listed, as of a pool that stands
// alone, it says nothing: pawl mcp test asks the pool.
func (a *App) warnOfModel(ctx context.Context, session *discover.Session, s *mcppoolv1.McpServer) {
	model := s.GetSampling().GetModel()
	if model == "" {
		return
	}
	list, err := plannerv1.NewPlannerServiceClient(session).ListModels(ctx, &plannerv1.ListModelsRequest{})
	if err != nil {
		return
	}
	var names []string
	for _, m := range list.GetModels() {
		if m.GetCanGenerate() {
			names = append(names, m.GetName())
		}
	}
	switch {
	case len(names) == 0:
		a.warn("%s may have the model %q asked, and there are no models that can be: name some in the file of --models (docs/models.md)", s.GetId(), model)
	case !slices.Contains(names, model):
		a.warn("%s may have the model %q asked, which there is not; there are %s: pawl mcp update %[1]s --sampling MODEL", s.GetId(), model, strings.Join(names, ", "))
	}
}
