package agent_test

import (
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// calling is a task whose step pool-1 is calling, in attempt 2.
func calling() *flow.Task {
	return &flow.Task{
		ID: "t", Head: &storagev1.TaskHead{Limits: &storagev1.Limits{MaxAttempts: 5, MaxFailedSteps: 3, MaxSteps: 25}}, Now: time.Unix(1, 0),
		State: &storagev1.Checkpoint{
			Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING, StepCount: 1,
			Lanes: []*storagev1.Lane{{Phase: storagev1.Phase_PHASE_CALL, Step: &storagev1.ActiveStep{
				Ordinal: 1, ToolId: "s/write", Attempt: 2, Status: executorv1.StepStatus_STEP_STATUS_RUNNING, PoolId: "pool-1", InputJson: "{}",
			}}},
		},
	}
}

// Another pool makes the call once that is durable: as the same attempt, without an event.
func TestMovedCall(t *testing.T) {
	task := calling()
	got, err := agent.New().Apply(task, 0, flow.Moved{Ordinal: 1, Attempt: 2, PoolID: "pool-2"})
	if err != nil {
		t.Fatal(err)
	}
	step := task.State.Lanes[0].Step
	if got.Unchanged || len(got.Facts) > 0 || step.GetPoolId() != "pool-2" || step.GetAttempt() != 2 {
		t.Errorf("transition %+v, step %v", got, step)
	}
	if len(got.Actions) != 1 || got.Actions[0].Action != (flow.Call{Ordinal: 1, Attempt: 2}) {
		t.Errorf("actions %v", got.Actions)
	}
}

// The call of a task that was cancelled meanwhile is not moved: it ends as NOT_EXECUTED.
func TestMovedCallOfACancelledTask(t *testing.T) {
	task := calling()
	task.State.CancelRequested = true
	got, err := agent.New().Apply(task, 0, flow.Moved{Ordinal: 1, Attempt: 2, PoolID: "pool-2"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range got.Actions {
		if _, ok := e.Action.(flow.Call); ok {
			t.Error("it is called")
		}
	}
	if task.State.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
		t.Errorf("it is %s", task.State.GetStatus())
	}
	for _, f := range got.Facts {
		if c := f.GetStepCancel(); c != nil && c.GetOutcome() != commonv1.Outcome_OUTCOME_NOT_EXECUTED {
			t.Errorf("outcome %s", c.GetOutcome())
		}
	}
}

// Moved is refused for any attempt but the one that runs.
func TestMovedOfAnotherAttempt(t *testing.T) {
	for _, in := range []flow.Moved{{Ordinal: 2, Attempt: 2}, {Ordinal: 1, Attempt: 1}} {
		if _, err := agent.New().Apply(calling(), 0, in); err == nil {
			t.Errorf("%+v was taken", in)
		}
	}
}
