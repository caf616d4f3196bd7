package agent_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// The cost of models that a tool's server used counts against the task's budget.
func TestSamplingIsSpent(t *testing.T) {
	task := calling()
	cost := &storagev1.Usage{ModelCalls: 2, InputTokens: 9, OutputTokens: 4, CostNanoUsd: 5}
	if _, err := agent.New().Apply(task, 0, flow.Called{Ordinal: 1, Attempt: 2, Output: `{"message":"a"}`, Outcome: commonv1.Outcome_OUTCOME_KNOWN, Usage: cost}); err != nil {
		t.Fatal(err)
	}
	if u := task.State.GetUsage(); u.GetModelCalls() != 2 || u.GetInputTokens() != 9 || u.GetOutputTokens() != 4 || u.GetCostNanoUsd() != 5 || u.GetToolCalls() != 1 {
		t.Errorf("%v", u)
	}
}

// Once the task's run time is spent, a call is neither moved to another pool nor repeated with its answers.
func TestNoCallAfterTheRunTime(t *testing.T) {
	for name, in := range map[string]flow.Input{
		"moved": flow.Moved{Ordinal: 1, Attempt: 2, PoolID: "pool-2"}, "undelivered": flow.Undelivered{Ordinal: 1, Attempt: 2},
	} {
		t.Run(name, func(t *testing.T) {
			task := calling()
			task.Head.Limits.MaxRunTime, task.State.RunTime = int64(time.Second), int64(5*time.Second)
			task.State.Lanes[0].Step.RequestState = "state"
			got, err := agent.New().Apply(task, 0, in)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range got.Actions {
				if call, begun := e.Action.(flow.Call); begun {
					t.Errorf("%+v is begun", call)
				}
			}
		})
	}
}

// twoBranches returns a task whose two branches call tools, as steps 1 and 2.
func twoBranches(limits *storagev1.Limits) *flow.Task {
	task := calling()
	first := task.State.GetLanes()[0].GetStep()
	second := proto.CloneOf(first)
	first.SubtaskId, second.SubtaskId, second.Ordinal = "a", "b", 2
	task.Head.Limits = limits
	task.State.StepCount, task.State.LaneCount = 2, 2
	task.State.Lanes = []*storagev1.Lane{
		{Phase: storagev1.Phase_PHASE_IDLE},
		{Id: 1, SubtaskId: "a", Phase: storagev1.Phase_PHASE_CALL, Step: first},
		{Id: 2, SubtaskId: "b", Phase: storagev1.Phase_PHASE_CALL, Step: second},
	}
	return task
}

// A call that runs in another branch counts against the budget of tool calls.
func TestRunningCallsAreReserved(t *testing.T) {
	task := twoBranches(&storagev1.Limits{MaxSteps: 9, MaxAttempts: 3, MaxFailedSteps: 3, MaxToolCalls: 2})
	task.Head.Confirm = executorv1.Confirm_CONFIRM_NEVER
	next := &flow.Planned{Step: &flow.PlannedStep{ToolID: "t/read", InputJSON: "{}"}}
	got, err := agent.New().Apply(task, 1, flow.Called{Ordinal: 1, Attempt: 2, Output: `{}`, Outcome: commonv1.Outcome_OUTCOME_KNOWN, Next: next})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got.Actions {
		if call, begun := a.Action.(flow.Call); begun {
			t.Errorf("a third call begins: %+v", call)
		}
	}
	if r := task.State.GetFailing().GetReason(); r != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
		t.Errorf("the task is %s, and fails with %s", task.State.GetStatus(), r)
	}
}

// A person's cancellation of a task that fails, but still waits for a call, cancels it.
func TestCancelOfAFailingTask(t *testing.T) {
	task := twoBranches(&storagev1.Limits{MaxSteps: 9, MaxAttempts: 3, MaxFailedSteps: 1})
	inputs := []flow.Input{
		flow.Planned{Err: &storagev1.ErrorNote{ErrMsg: "no way on"}},
		flow.Command{Command: &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{}}}},
		flow.Called{Ordinal: 2, Attempt: 2, Output: `{}`, Outcome: commonv1.Outcome_OUTCOME_KNOWN},
	}
	task.State.Lanes[1].Phase, task.State.Lanes[1].Step = storagev1.Phase_PHASE_PLAN, nil
	for i, in := range inputs {
		if _, err := agent.New().Apply(task, []uint32{1, 0, 2}[i], in); err != nil {
			t.Fatal(err)
		}
	}
	if s := task.State.GetStatus(); s != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED || task.State.GetError() != nil {
		t.Errorf("the task is %s, with the error %v", s, task.State.GetError())
	}
}

// Two calls that were approved during a pause, and for which the budget no longer suffices, end the task once it is unpaused.
func TestBudgetIsSpentAtUnpause(t *testing.T) {
	task := twoBranches(&storagev1.Limits{MaxSteps: 9, MaxAttempts: 3, MaxFailedSteps: 3, MaxToolCalls: 1})
	task.State.Status, task.State.PauseRequested = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING, true
	task.State.Usage = &storagev1.Usage{ToolCalls: 1}
	task.State.Waits = []*storagev1.Wait{{Id: "wait-1", Kind: executorv1.WaitKind_WAIT_KIND_PAUSE}}
	for _, l := range task.State.GetLanes()[1:] {
		l.Phase, l.PausedPhase, l.Step.Status = storagev1.Phase_PHASE_WAIT, storagev1.Phase_PHASE_START, executorv1.StepStatus_STEP_STATUS_WAITING
	}
	if _, err := agent.New().Apply(task, 0, flow.Command{Command: &storagev1.Command{Kind: &storagev1.Command_Unpause{Unpause: &storagev1.Unpause{}}}}); err != nil {
		t.Fatal(err)
	}
	if task.State.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR {
		t.Errorf("the task is %s", task.State.GetStatus())
	}
}

// A question whose result a crash lost counts with all model calls that were reserved for it, also if that is one, so that the budget is not exceeded.
func TestLostQuestionsAreSpent(t *testing.T) {
	for _, reserved := range []uint32{1, 2} {
		task := calling()
		task.Head.Limits.MaxModelCalls, task.State.Usage = 2+reserved, &storagev1.Usage{ModelCalls: 2, InputTokens: 10, CostNanoUsd: 4}
		lane := task.State.Lanes[0]
		lane.Step, lane.Phase, lane.ReservedModelCalls, lane.ReservedTokens, lane.ReservedCostNanoUsd = nil, storagev1.Phase_PHASE_PLAN, reserved, 100, 100
		got, err := agent.New().Resume(task, true)
		if err != nil {
			t.Fatal(err)
		}
		if u := task.State.GetUsage(); u.GetModelCalls() != 2+reserved || u.GetInputTokens() != uint64(10+5*reserved) || u.GetCostNanoUsd() != uint64(4+2*reserved) {
			t.Errorf("%d were reserved: %v", reserved, u)
		}
		failed := slices.ContainsFunc(got.Facts, func(f *storagev1.Fact) bool {
			return f.GetFlowFailed().GetReason() == commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED
		})
		if !failed || len(got.Actions) > 0 {
			t.Errorf("%d were reserved: %v, %v", reserved, got.Facts, got.Actions)
		}
	}
}

// What the questions about a step cost counts against the budget, also if they fail.
func TestQuestionsAboutAStepAreSpent(t *testing.T) {
	cost := &storagev1.Usage{ModelCalls: 2, InputTokens: 9, OutputTokens: 4, CostNanoUsd: 5}
	failed := &storagev1.ErrorNote{ErrMsg: "cannot", Reason: commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR}
	for phase, inputs := range map[storagev1.Phase][]flow.Input{
		storagev1.Phase_PHASE_DERIVE:   {flow.Derived{Ordinal: 1, Input: "{}", Usage: cost}, flow.Derived{Ordinal: 1, Err: failed, Usage: cost}},
		storagev1.Phase_PHASE_DIAGNOSE: {flow.Diagnosed{Ordinal: 1, Usage: cost}, flow.Diagnosed{Ordinal: 1, Err: failed, Usage: cost}},
	} {
		for _, in := range inputs {
			task := calling()
			task.Head.Limits.MaxModelCalls = 9
			lane := task.State.Lanes[0]
			lane.Phase, lane.ReservedModelCalls = phase, 3
			if _, err := agent.New().Apply(task, 0, in); err != nil {
				t.Fatalf("%+v: %v", in, err)
			}
			if u := task.State.GetUsage(); u.GetModelCalls() != 2 || u.GetInputTokens() != 9 || u.GetOutputTokens() != 4 || u.GetCostNanoUsd() != 5 {
				t.Errorf("%+v: %v", in, u)
			}
		}
	}
}

// The run time of a task that is stored as running, such as a fork, counts from its start on.
func TestRunTimeOfAFork(t *testing.T) {
	task := calling()
	task.Head.Limits.MaxRunTime = int64(time.Second)
	if _, err := agent.New().Resume(task, false); err != nil {
		t.Fatal(err)
	}
	if since := task.State.GetRunSince(); since != task.Now.UnixNano() {
		t.Errorf("it has run since %d, want %d", since, task.Now.UnixNano())
	}
}
