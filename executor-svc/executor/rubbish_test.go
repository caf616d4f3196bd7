package executor_test

import (
	"context"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
)

const (
	waiting = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	success = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
)

// Whatever plan a planner returns, the task waits or ends, and no tool is called with an input that does not fit
// (A18: never `{}`; A21: an unknown tool makes it FINAL; A29: a planner cannot lower a risk).
func TestPlannerRubbish(t *testing.T) {
	text := `{"text":"x"}`
	for name, c := range map[string]struct {
		steps []*plannerv1.PlannedStep
		want  executorv1.ExecutorStatus
		calls int
	}{
		"none":          {nil, success, 0},
		"empty":         {[]*plannerv1.PlannedStep{{}}, success, 0},
		"unknown":       {[]*plannerv1.PlannedStep{{ToolId: "x/y"}}, success, 0},
		"no slash":      {[]*plannerv1.PlannedStep{{ToolId: "read"}}, success, 0},
		"not json":      {[]*plannerv1.PlannedStep{{ToolId: "t/read", InputJson: "hello"}}, success, 0},
		"array":         {[]*plannerv1.PlannedStep{{ToolId: "t/read", InputJson: "[]"}}, success, 0},
		"no input":      {[]*plannerv1.PlannedStep{{ToolId: "t/read"}}, success, 0},
		"huge":          {[]*plannerv1.PlannedStep{{ToolId: "t/read", InputJson: `{"text":"` + strings.Repeat("x", 1<<20) + `"}`}}, success, 1},
		"deep":          {[]*plannerv1.PlannedStep{{ToolId: "t/read", InputJson: strings.Repeat("[", 100000)}}, success, 0},
		"risk":          {[]*plannerv1.PlannedStep{{ToolId: "t/read", InputJson: text, Risk: &commonv1.Risk{Level: 77}}}, waiting, 0},
		"risk -1":       {[]*plannerv1.PlannedStep{{ToolId: "t/read", InputJson: text, Risk: &commonv1.Risk{Level: -1}}}, success, 1},
		"write no risk": {[]*plannerv1.PlannedStep{{ToolId: "t/write", InputJson: text}}, waiting, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script())
			r.planner.PlanFn = func(_ context.Context, tc *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
				if len(tc.GetHistory()) > 0 {
					return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{ToolId: "FINAL"}}}, nil
				}
				return &plannerv1.PlanStepsResponse{Steps: c.steps}, nil
			}
			id := r.run(auto("x"))[0].GetTaskId()
			events := r.events(id)
			if s := r.task(id).GetStatus(); s != c.want || len(r.pool.Called()) != c.calls {
				t.Errorf("%s after %d calls, want %s after %d; %v; %v", s, len(r.pool.Called()), c.want, c.calls, types(events), r.task(id).GetError())
			}
		})
	}
}

// However a pool's stream ends, the outcome is the one that it carried or UNKNOWN, never guessed (A13).
func TestPoolStreams(t *testing.T) {
	type send = func(*mcppoolv1.CallToolResponse) error
	const (
		known   = commonv1.Outcome_OUTCOME_KNOWN
		unknown = commonv1.Outcome_OUTCOME_UNKNOWN
	)
	for name, c := range map[string]struct {
		call func(context.Context, *mcppoolv1.CallToolRequest, send) error
		want commonv1.Outcome
	}{
		"no result": {func(context.Context, *mcppoolv1.CallToolRequest, send) error { return nil }, unknown},
		"empty result": {func(_ context.Context, _ *mcppoolv1.CallToolRequest, s send) error {
			return s(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{}}})
		}, known},
		"empty message": {func(_ context.Context, _ *mcppoolv1.CallToolRequest, s send) error {
			return s(&mcppoolv1.CallToolResponse{})
		}, unknown},
		"two results": {func(_ context.Context, _ *mcppoolv1.CallToolRequest, s send) error {
			_ = s(fake.TextResult("a", false))
			return s(fake.TextResult("b", true))
		}, known},
		"result, then an error": {func(_ context.Context, _ *mcppoolv1.CallToolRequest, s send) error {
			_ = s(fake.TextResult("a", false))
			return context.Canceled
		}, known},
	} {
		for _, tool := range []string{"read", "write"} {
			t.Run(name+" "+tool, func(t *testing.T) {
				r := newRig(t, fake.Script(tool))
				r.pool.CallFn = c.call
				id := r.create(auto("x")).GetId()
				if tool == "write" {
					stop := r.until(id, flowStop)
					if _, err := r.approve(id, stop.GetFlowStop().GetWaitIds()[0], ""); err != nil {
						t.Fatal(err)
					}
				}
				want := success
				if tool == "write" && c.want == unknown {
					want = waiting
					r.untilWait(id, executorv1.WaitKind_WAIT_KIND_OUTCOME)
				} else {
					r.until(id, flowSuccess)
				}
				r.events(id)
				step := r.steps(id)[0]
				if step.GetOutcome() != c.want || r.task(id).GetStatus() != want || len(r.pool.Called()) != 1 {
					t.Errorf("step %v after %d calls, want %s after 1", step, len(r.pool.Called()), c.want)
				}
			})
		}
	}
}
