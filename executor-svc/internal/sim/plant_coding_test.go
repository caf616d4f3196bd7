//go:build !race

package sim

import (
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/flow"
	codingv1 "pawl.dev/executor-svc/internal/flow/coding/v1"
)

// withPlans gives every task a plan of subtasks.
func withPlans(c *config) { c.coding = 1 }

// dependOnNothing forgets what the subtasks of a new plan depend on.
func dependOnNothing(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	tr, err := f.Apply(t, lane, in)
	if _, created := in.(flow.PlanCreated); err != nil || !created {
		return tr, err
	}
	plan := &codingv1.State{}
	if err := proto.Unmarshal(t.State.GetFlowPlan(), plan); err != nil {
		return tr, err
	}
	for _, s := range plan.GetSubtasks() {
		s.DependsOn = nil
	}
	t.State.FlowPlan, err = proto.Marshal(plan)
	return tr, err
}
