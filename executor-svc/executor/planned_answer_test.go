package executor_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
)

// answering returns a planner that plans one call of read, and then returns the answer in its plan.
func answering(answer string, result plannerv1.GoalResult) *fake.Planner {
	p := fake.Script("read")
	steps := p.Steps
	p.AnswerFn = func(context.Context, *plannerv1.GenerateAnswerRequest, func(string) error) error {
		return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "GenerateAnswer is not needed")
	}
	p.PlanFn = func(_ context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		usage := &commonv1.Usage{ModelCalls: 1, InputTokens: 100, CachedInputTokens: 60, OutputTokens: 5, CostNanoUsd: proto.Uint64(1500)}
		if len(c.GetHistory()) == 0 {
			p.Pieces = nil
			return &plannerv1.PlanStepsResponse{Steps: steps, Usage: usage}, nil
		}
		p.Pieces = strings.SplitAfter(answer, " ")
		return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{ToolId: "FINAL"}}, Usage: usage, Answer: &answer, GoalResult: result}, nil
	}
	return p
}

// A22: an answer that a model writes while it plans is streamed, and costs no further call.
func TestAnswerOfThePlan(t *testing.T) {
	r := newRig(t, answering("It says read 1.", plannerv1.GoalResult_GOAL_RESULT_FULFILLED))
	events := r.run(auto("look"))
	checkLog(t, events)
	task := r.task(events[0].GetTaskId())
	if task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS || task.GetFullAnswer() != "It says read 1." {
		t.Errorf("%v with %q, %v", task.GetStatus(), task.GetFullAnswer(), task.GetError())
	}
	u := task.GetUsage()
	if u.GetModelCalls() != 2 || u.GetCachedInputTokens() != 120 || u.GetCostNanoUsd() != 3000 {
		t.Errorf("usage %v, want two calls for a step and an answer", u)
	}
}

// An answer that says what is missing ends the task with an error, and is kept.
func TestGoalNotReached(t *testing.T) {
	const answer = "There is no tool that deletes files."
	r := newRig(t, answering(answer, plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED))
	events := r.run(auto("delete it"))
	checkLog(t, events)
	last := events[len(events)-1]
	if last.GetType() != flowFailed || last.GetFlowFailed().GetFullAnswer() != answer ||
		last.GetFlowFailed().GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_GOAL_NOT_REACHED {
		t.Errorf("it ends with %v", last)
	}
	task := r.task(last.GetTaskId())
	if task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR || task.GetFullAnswer() != answer {
		t.Errorf("%v with %q", task.GetStatus(), task.GetFullAnswer())
	}
}

// Text that a model writes before a call is not the answer: the task goes on with the call.
func TestRemarkBeforeACall(t *testing.T) {
	p := fake.Script("read")
	p.Pieces = []string{"I will look. "}
	r := newRig(t, p)
	events := r.run(auto("look"))
	checkLog(t, events)
	task := r.task(events[0].GetTaskId())
	if task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS || task.GetFullAnswer() != "step-1:SUCCESS done" || task.GetStepCount() != 1 {
		t.Errorf("%v with %q after %d steps", task.GetStatus(), task.GetFullAnswer(), task.GetStepCount())
	}
}

// A planner asks for the rest of an output. The executor serves it from the history, without the pool and without an approval. If the output is so
// large that a running task does not keep it, the executor reads it from the journal, also for the planner.
func TestReadOutput(t *testing.T) {
	for name, size := range map[string]int{"kept": 20_000, "stored": 600_000} {
		t.Run(name, func(t *testing.T) { testReadOutput(t, size) })
	}
}

func testReadOutput(t *testing.T, size int) {
	long := strings.Repeat("0123456789", size/10) + "é" + strings.Repeat("x", 100)
	p := &fake.Planner{}
	input := func(offset int) string { return fmt.Sprintf(`{"step":"step-1","offset":%d}`, offset) }
	inputs := []string{input(size - 4000), input(2 * size), `{"step":"step-9"}`, input(size + 1)}
	p.PlanFn = func(_ context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		step := &plannerv1.PlannedStep{ToolId: "FINAL"}
		if n := len(c.GetHistory()); n > 0 && (c.GetHistory()[0].GetOutputOmitted() || !strings.Contains(c.GetHistory()[0].GetOutputJson(), long)) {
			t.Errorf("after %d steps the planner does not get the output", n)
		}
		switch n := len(c.GetHistory()); {
		case n == 0:
			step = &plannerv1.PlannedStep{ToolId: "t/read", InputJson: `{"text":"x"}`}
		case n <= len(inputs):
			step = &plannerv1.PlannedStep{ToolId: "pawl/read_output", FromHistory: true, InputJson: inputs[n-1]}
		}
		return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{step}}, nil
	}
	r := newRig(t, p)
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(fake.TextResult(long, false))
	}
	req := manual("read all of it")
	id := r.create(req).GetId()
	if _, err := r.approve(id, r.untilWait(id, executorv1.WaitKind_WAIT_KIND_APPROVAL).GetId(), ""); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	checkLog(t, r.events(id))
	steps := r.steps(id)
	if len(steps) != 5 || len(r.pool.Called()) != 1 {
		t.Fatalf("%d steps, %d calls", len(steps), len(r.pool.Called()))
	}
	if out := steps[1].GetOutputJson(); !strings.Contains(out, fmt.Sprintf(`"total":%d`, size+102)) || strings.Contains(out, "next_offset") || !strings.Contains(out, "é") {
		t.Errorf("the rest is %.200s", out)
	}
	if out := steps[4].GetOutputJson(); !strings.Contains(out, fmt.Sprintf(`"offset":%d`, size+2)) {
		t.Errorf("from the middle of a character: %s", out)
	}
	for _, s := range steps[2:4] {
		if s.GetStatus() != executorv1.StepStatus_STEP_STATUS_ERROR {
			t.Errorf("%s: %v", s.GetInputJson(), s.GetStatus())
		}
	}
	if u := r.task(id).GetUsage(); u.GetToolCalls() != 1 {
		t.Errorf("usage %v, want one call of a tool", u)
	}
}

// The usage of failed planner calls counts, and so does that of the calls that repeat them.
func TestUsageOfFailedPlannerCalls(t *testing.T) {
	p := fake.Script()
	var tries atomic.Int32
	p.BeforePlan = func(context.Context) error {
		if tries.Add(1) < 3 {
			e := errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "the model answered nonsense")
			e.Usage = &commonv1.Usage{ModelCalls: 3, InputTokens: 10}
			return e
		}
		return nil
	}
	p.Usage = &commonv1.Usage{ModelCalls: 1, InputTokens: 10}
	r := newRig(t, p)
	events := r.run(auto("look"))
	u := r.task(events[0].GetTaskId()).GetUsage()
	if u.GetModelCalls() != 7 || u.GetInputTokens() != 30 || u.CostNanoUsd != nil {
		t.Errorf("usage %v, want 7 calls and no price", u)
	}
}

// A budget in money ends the task before the next model call, and the planner is told what is left.
func TestBudgetInMoney(t *testing.T) {
	p := answering("done", plannerv1.GoalResult_GOAL_RESULT_FULFILLED)
	r := newRig(t, p)
	req := auto("look")
	req.Budget = &executorv1.Budget{MaxCostNanoUsd: 1000}
	events := r.run(req)
	last := events[len(events)-1]
	if last.GetFlowFailed().GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
		t.Errorf("it ends with %v", last)
	}
	if left := p.Contexts()[0].CostNanoUsdLeft; left == nil || *left != 1000 {
		t.Errorf("the planner was told that %v is left", left)
	}
}

// The planner's summary of the oldest steps is kept, and sent with a whole context.
func TestMemoryOfThePlanner(t *testing.T) {
	p := &fake.Planner{}
	p.PlanFn = func(_ context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		if len(c.GetHistory()) == 0 {
			return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{ToolId: "t/read", InputJson: `{"text":"x"}`}},
				Memory: &plannerv1.Memory{Summary: "nothing yet", LastStepId: "step-0"}}, nil
		}
		return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{ToolId: "FINAL"}}}, nil
	}
	r := newRig(t, p)
	r.run(auto("look"))
	all := p.Contexts()
	if m := all[len(all)-1].GetMemory(); m.GetSummary() != "nothing yet" || m.GetLastStepId() != "step-0" {
		t.Errorf("the planner got %v", m)
	}
}
