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
	return r.flowName(ctx, model.Facts{Context: tc})
}

func (r *Reasoner) flowName(ctx context.Context, f model.Facts) (string, model.Usage, error) {
	name, computed, err := compute(ctx, r, &f, model.Computing.FlowName)
	if err != nil {
		return "", model.Usage{}, err
	}
	var usage model.Usage
	if !computed {
		var a *nameAnswer
		if a, usage, err = structured[nameAnswer](ctx, r, model.FlowName, f, nil); err != nil {
			return "", usage, err
		}
		name = a.Name
	}
	return lang.Clip(strings.Join(strings.Fields(name), " "), mostName), usage, nil
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
	return r.flowRisk(ctx, model.Facts{Context: tc})
}

func (r *Reasoner) flowRisk(ctx context.Context, f model.Facts) (*commonv1.Risk, model.Usage, error) {
	found, computed, err := compute(ctx, r, &f, model.Computing.FlowRisk)
	if computed || err != nil {
		return found, model.Usage{}, err
	}
	a, usage, err := structured[riskAnswer](ctx, r, model.FlowRisk, f, nil)
	if err != nil {
		return nil, usage, err
	}
	return a.proto(), usage, nil
}
