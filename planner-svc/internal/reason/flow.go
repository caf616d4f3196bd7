package reason

import (
	"context"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/model"
	"pawl.dev/planner-svc/internal/risk"
)

// mostName bounds a flow's name, in characters.
const mostName = 60

type nameAnswer struct {
	Name string `json:"name"`
}

// FlowName names the flow (A3).
func (r *Reasoner) FlowName(ctx context.Context, tc *plannerv1.TaskContext) (string, model.Usage, error) {
	a, usage, err := structured[nameAnswer](ctx, r, model.FlowName, model.Facts{Context: tc}, nil)
	if err != nil {
		return "", usage, err
	}
	return lang.Clip(strings.Join(strings.Fields(a.Name), " "), mostName), usage, nil
}

type riskAnswer struct {
	Level  string `json:"level"`
	Reason string `json:"reason"`
}

func (a *riskAnswer) proto() *commonv1.Risk {
	return &commonv1.Risk{Level: risk.Parse(a.Level), Reason: a.Reason}
}

// FlowRisk assesses the whole flow (A3).
func (r *Reasoner) FlowRisk(ctx context.Context, tc *plannerv1.TaskContext) (*commonv1.Risk, model.Usage, error) {
	a, usage, err := structured[riskAnswer](ctx, r, model.FlowRisk, model.Facts{Context: tc}, nil)
	if err != nil {
		return nil, usage, err
	}
	return a.proto(), usage, nil
}
