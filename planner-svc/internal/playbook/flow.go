package playbook

import (
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/risk"
)

func (r *run) flowName() string {
	for _, s := range []string{r.Name, r.tc.GetGoal(), r.Goal} {
		if title := lang.Title(s); title != "" {
			return title
		}
	}
	return r.lang.Say("Playbook of %d %[2]s", "%[1]d 步的 playbook", len(r.Steps), lang.Plural(len(r.Steps), "step", "steps"))
}

// flowRisk is the highest risk of the steps, by the tools' floors and the playbook's word.
func (r *run) flowRisk() *commonv1.Risk {
	var tools []*catalog.Tool
	said := commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED
	for i := range r.Steps {
		if t := r.tool(r.Steps[i].Tool); t != nil {
			tools = append(tools, t)
		}
		said = max(said, r.Steps[i].Risk)
	}
	return r.raised(risk.OfTools(r.lang, tools), said)
}

// raised raises a risk to what the playbook says; it cannot lower it.
func (r *run) raised(assessed *commonv1.Risk, said commonv1.RiskLevel) *commonv1.Risk {
	return risk.Raise(assessed, said, r.lang.Pick("The playbook says so.", "playbook 中如此声明。"))
}
