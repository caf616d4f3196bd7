package admin

import (
	"context"
	"runtime"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// VersionCmd is `pawl version`.
type VersionCmd struct{}

// Run prints the version of this program.
func (c *VersionCmd) Run(u *ui.UI, h *Host) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return u.Result(map[string]string{"version": h.Version, "go": runtime.Version(), "platform": platform},
		"pawl %s (%s, %s)", h.Version, runtime.Version(), platform)
}

// ModelsCmd is `pawl models`.
type ModelsCmd struct{}

// Run lists models.
func (c *ModelsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	list, err := s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{})
	if err != nil {
		return err
	}
	t := u.Table("MODEL", "USE", "WHAT")
	for _, m := range list.GetModels() {
		t.Row(m.GetName(), modelUse(m), m.GetDescription())
	}
	return u.List(list, t, "no models")
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
