package admin

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/eval"
	"pawl.dev/cmd/internal/ui"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// EvalCmd is `pawl eval`.
type EvalCmd struct {
	File    string   `arg:"" type:"existingfile" help:"File of cases: goals with their tools and the expected calls (docs/eval.md)."`
	Models  []string `arg:"" optional:"" name:"model" help:"The models to compare, with --compare."`
	Compare bool     `help:"Run the cases with each named model, and show the results side by side."`
	Model   string   `placeholder:"NAME" help:"The model to measure (default: the planner's)."`
	Beside  int      `placeholder:"N" help:"Offer N more tools of the file with each case, beside its own."`
	Wrong   bool     `help:"Show each case that went wrong, and why."`
}

// Run measures the models.
func (c *EvalCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	models, err := c.models()
	if err != nil {
		return err
	}
	f, err := eval.Load(c.File)
	if err != nil {
		return ui.Usagef("%v", err)
	}
	var reports []*eval.Report
	for _, model := range models {
		r, err := eval.Run(ctx, s.Planner, f, eval.Options{Model: model, Beside: c.Beside, Each: func(r eval.Result) {
			if c.Wrong && !u.JSON && (r.Answerable && !r.RightInput || !r.Answerable && !r.Refused) {
				u.Printf("%s\n  %s\n  %s\n", r.Goal, r.Problem, strings.Join(r.Calls, "\n  "))
			}
		}})
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	if u.JSON {
		return u.Document(map[string]any{"reports": reports})
	}
	return eval.Table(u.Out, reports...)
}

// models returns the models to measure.
func (c *EvalCmd) models() ([]string, error) {
	switch {
	case c.Compare && c.Model != "":
		return nil, ui.Usagef("--compare takes the models without --model").Then("pawl eval FILE --compare %s", strings.Join(append(c.Models, c.Model), " "))
	case c.Compare && len(c.Models) < 2:
		return nil, ui.Usagef("--compare needs two models").Then("pawl eval FILE --compare MODEL MODEL")
	case !c.Compare && len(c.Models) > 0:
		return nil, ui.Usagef("%q is not expected", c.Models[0]).Then("pawl eval FILE --model %s, or --compare with several", c.Models[0])
	case !c.Compare:
		return []string{c.Model}, nil
	}
	return c.Models, nil
}

// ModelsCmd is `pawl models`.
type ModelsCmd struct{}

// Run lists models. PAWL_MODEL makes its model the default, as in `pawl run`.
func (c *ModelsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	chosen := u.Getenv("PAWL_MODEL")
	list, err := s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{Name: chosen})
	if err != nil && chosen != "" && errs.From(err).Code == codes.InvalidArgument { // the planner has no such model
		u.Note("PAWL_MODEL: %s", errs.From(err).Message)
		chosen = ""
		list, err = s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{})
	}
	for _, m := range list.GetModels() {
		m.IsDefault = chosen == "" && m.GetIsDefault() || m.GetName() == chosen
	}
	t := u.Table("MODEL", "USE", "WHAT")
	for _, m := range list.GetModels() {
		t.Row(m.GetName(), modelUse(m), m.GetDescription())
	}
	return u.List(list, err, t, "no models")
}

// modelUse returns what a model is used for, such as "plans (default), answers".
func modelUse(m *plannerv1.Model) string {
	var uses []string
	for _, use := range []struct {
		can, isDefault bool
		name           string
	}{{m.GetCanPlan(), m.GetIsDefault(), "plans"}, {m.GetCanGenerate(), m.GetIsGenerateDefault(), "answers"}} {
		switch {
		case use.can && use.isDefault:
			uses = append(uses, use.name+" (default)")
		case use.can:
			uses = append(uses, use.name)
		}
	}
	return strings.Join(uses, ", ")
}
