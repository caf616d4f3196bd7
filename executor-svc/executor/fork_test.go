package executor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/flow"
)

// A19: a fork may have as many failed steps of its own as a new task, and so may a fork of it. Its error count includes the failed
// steps that it keeps.
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
		fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id, Seq: r.newest(id, executorv1.EventType_EVENT_TYPE_STEP_ERROR)})
		if err != nil {
			t.Fatal(err)
		}
		id = fork.GetId()
	}
}

// A30: without a seq, a fork of a task that failed repeats what failed, from the beginning if no step succeeded.
func TestForkRepeatsWhatFailed(t *testing.T) {
	for _, tc := range []struct{ good, calls int }{{0, 2}, {1, 3}} {
		r := newRig(t, failAfterFailedStep(fake.Script([]string{"read", "read"}[:tc.good+1]...)))
		broken := true
		r.pool.CallFn = func(_ context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
			fails := broken && strings.Contains(req.GetInputJson(), fmt.Sprint("read ", tc.good+1))
			return send(fake.TextResult("said", fails))
		}
		id := r.create(auto("try")).GetId()
		r.until(id, flowFailed)
		broken = false // the file that was missing is there now
		fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fork.GetForkedFrom().GetSeq(), max(1, r.newest(id, executorv1.EventType_EVENT_TYPE_STEP_OUTPUT)); got != want {
			t.Errorf("%d good steps: forked at %d, want %d", tc.good, got, want)
		}
		r.until(fork.GetId(), flowSuccess)
		checkLog(t, r.events(fork.GetId()))
		task := r.task(fork.GetId())
		if steps := r.steps(fork.GetId()); len(steps) != tc.good+1 || task.GetErrorCount() != 0 || task.GetName() != "test flow" {
			t.Errorf("%d good steps: the fork has the steps %v, task %v", tc.good, steps, task)
		}
		if n := len(r.pool.Called()); n != tc.calls {
			t.Errorf("%d good steps: %d calls, want %d", tc.good, n, tc.calls)
		}
		again, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id, Seq: r.newest(id, executorv1.EventType_EVENT_TYPE_STEP_ERROR)})
		if err != nil {
			t.Fatal(err)
		}
		r.until(again.GetId(), flowFailed) // a given seq is not changed
	}
}

// A fork of a task that failed before its first step starts from the beginning.
func TestForkOfATaskThatNeverBegan(t *testing.T) {
	p := fake.Script("read")
	p.BeforePlan = func(context.Context) error {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, "no output a.b")
	}
	r := newRig(t, p)
	id := r.create(auto("try")).GetId()
	r.until(id, flowFailed)
	p.BeforePlan = nil
	fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	r.until(fork.GetId(), flowSuccess)
	if n := len(r.pool.Called()); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// A fork of a task that ended well goes on from its newest step, even if that step failed.
func TestForkOfATaskThatEndedWell(t *testing.T) {
	r := newRig(t, fake.Script("read", "read"))
	r.pool.CallFn = func(_ context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(fake.TextResult("said", strings.Contains(req.GetInputJson(), "read 2")))
	}
	id := r.create(auto("try")).GetId()
	r.until(id, flowSuccess)
	fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fork.GetForkedFrom().GetSeq(), r.newest(id, executorv1.EventType_EVENT_TYPE_STEP_ERROR); got != want {
		t.Errorf("forked at %d, want %d", got, want)
	}
}

// failAfterFailedStep makes the planner fail the task once a step has failed, as a playbook does.
func failAfterFailedStep(p *fake.Planner) *fake.Planner {
	script := p.Steps
	p.PlanFn = func(_ context.Context, tc *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		h := tc.GetHistory()
		if n := len(h); n > 0 && h[n-1].GetResult() == plannerv1.StepResult_STEP_RESULT_ERROR {
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, "a step of the playbook failed")
		}
		if len(h) == len(script) {
			return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{ToolId: "FINAL"}}}, nil
		}
		return &plannerv1.PlanStepsResponse{Steps: script[len(h) : len(h)+1]}, nil
	}
	return p
}

// newest returns the seq of the newest event of that type, or 0.
func (r *rig) newest(id string, of executorv1.EventType) (seq uint64) {
	for _, e := range r.events(id) {
		if e.GetType() == of {
			seq = e.GetSeq()
		}
	}
	return seq
}

// A30: a fork at the end of a branch's step plans the other branches again. Steps that were open there are shown as cancelled.
func TestForkBetweenBranches(t *testing.T) {
	p := &fake.Planner{PlanFn: func(_ context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		done, tools := map[string]bool{}, map[string]string{"a": "t/read", "b": "t/write", "": flow.Final}
		for _, h := range c.GetHistory() {
			done[h.GetBranch()] = true
		}
		var open []string
		for _, b := range []string{"a", "b"} {
			if !done[b] {
				open = append(open, b)
			}
		}
		if c.GetBranch() == "" && len(open) > 0 {
			return &plannerv1.PlanStepsResponse{Branches: open}, nil
		}
		tool := tools[c.GetBranch()]
		if done[c.GetBranch()] {
			tool = flow.Final
		}
		return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{ToolId: tool, InputJson: `{"text":"` + c.GetBranch() + `"}`, Risk: &commonv1.Risk{Level: 1}}}}, nil
	}}
	r := newRig(t, p)
	id := r.create(manual("both")).GetId()
	r.until(id, flowStop)
	for _, s := range r.steps(id) {
		if s.GetSubtaskId() == "a" {
			if _, err := r.approve(id, s.GetWaitId(), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.until(id, executorv1.EventType_EVENT_TYPE_STEP_OUTPUT)
	fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id, Seq: r.newest(id, executorv1.EventType_EVENT_TYPE_STEP_OUTPUT)})
	if err != nil {
		t.Fatal(err)
	}
	w := r.untilWait(fork.GetId(), approveWait)
	if _, err := r.approve(fork.GetId(), w.GetId(), ""); err != nil {
		t.Fatal(err)
	}
	r.until(fork.GetId(), flowSuccess)
	var got []string
	for _, s := range r.steps(fork.GetId()) {
		got = append(got, s.GetSubtaskId()+" "+strings.TrimPrefix(s.GetStatus().String(), "STEP_STATUS_"))
	}
	slices.Sort(got)
	if want := "a SUCCESS,b CANCELLED,b SUCCESS"; strings.Join(got, ",") != want {
		t.Errorf("steps of the fork: %v, want %s", got, want)
	}
	if n := len(r.pool.CalledFor(fork.GetId())); n != 1 {
		t.Errorf("%d calls of the fork, want 1", n)
	}
	r.events(fork.GetId())
}
