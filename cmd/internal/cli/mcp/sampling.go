package mcp

import (
	"context"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// warnOfModel says that a server may have a model asked that is not there. Where models cannot be listed, as of a pool that stands
// alone, it says nothing: pawl mcp test asks the pool.
func warnOfModel(ctx context.Context, u *ui.UI, s *discover.Session, server *mcppoolv1.McpServer) {
	model := server.GetSampling().GetModel()
	if model == "" {
		return
	}
	list, err := s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{})
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
		u.Warn("%s may have the model %q asked, and there are no models that can be: name some in the file of --models (docs/models.md)", server.GetId(), model)
	case !slices.Contains(names, model):
		u.Warn("%s may have the model %q asked, which there is not; there are %s: pawl mcp update %[1]s --sampling MODEL", server.GetId(), model, strings.Join(names, ", "))
	}
}
