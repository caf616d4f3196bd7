package executor_test

import (
	"context"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
)

// A19: a fork may fail as often as a new task, and so may a fork of it; the failed steps that it keeps are counted, as its steps
// show them.
func TestForkAtTheLimitOfFailedSteps(t *testing.T) {
	r := newRig(t, fake.Script("read", "read", "read", "read", "read", "read", "read"))
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(fake.TextResult("no", true))
	}
	r.planner.DeriveFn = func(req *plannerv1.GetFirstInputParamsRequest) string { return req.GetFailedInputJson() }
	_, err := r.agents.CreateAgent(t.Context(), &executorv1.CreateAgentRequest{AgentId: "clumsy", Agent: &executorv1.Agent{MaxFailedSteps: 2}})
	if err != nil {
		t.Fatal(err)
	}
	req := auto("try")
	req.AgentId = "clumsy"
	id := r.create(req).GetId()
	for failed := uint32(2); failed <= 6; failed += 2 {
		if e := r.until(id, flowFailed); e.GetFlowFailed().GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED {
			t.Errorf("it ended with %v", e)
		}
		if task := r.task(id); task.GetErrorCount() != failed || int(failed) != len(r.steps(id)) {
			t.Errorf("%d failed steps of %d, want %d", task.GetErrorCount(), len(r.steps(id)), failed)
		}
		fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		id = fork.GetId()
	}
}
