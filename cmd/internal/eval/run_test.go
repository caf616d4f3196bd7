package eval

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// planner returns the same steps again and again.
type planner struct {
	plannerv1.PlannerServiceClient
	t     *testing.T
	steps []*plannerv1.PlannedStep
	calls int
}

func (p *planner) PlanSteps(context.Context, *plannerv1.PlanStepsRequest, ...grpc.CallOption) (*plannerv1.PlanStepsResponse, error) {
	if p.calls++; p.calls > 10 {
		p.t.Fatal("the planner is asked again and again")
	}
	return &plannerv1.PlanStepsResponse{Steps: p.steps}, nil
}

// A plan that takes no step ends the case with an error: to ask again would never end.
func TestPlanWithoutStep(t *testing.T) {
	for name, steps := range map[string][]*plannerv1.PlannedStep{
		"no steps": nil, "unresolved step": {{ToolId: "tools/add", InputJson: `{"a":"${step-1.output}"}`, Unresolved: true}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &File{
				Cases:   []Case{{Goal: "Add 2 and 3", Calls: []Call{{Tool: OneOf{"add"}}}}},
				offered: map[string][]*commonv1.Tool{inlineServer: {{Id: "tools/add", Name: "add"}}},
			}
			_, err := Run(t.Context(), &planner{t: t, steps: steps}, f, Options{})
			if err == nil || !strings.Contains(err.Error(), "without a step that can be taken now") {
				t.Error(err)
			}
		})
	}
}
