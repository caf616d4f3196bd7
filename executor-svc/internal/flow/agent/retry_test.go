package agent_test

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A19: a failed step that the planner tries again does not count for the limit of failed steps; the last attempt does.
func TestRetriedStepsDoNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		retry bool
		steps uint32
		count uint32
		ends  executorv1.ExecutorStatus
	}{
		"tried again":     {true, 6, 1, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING},
		"different steps": {false, 3, 3, executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR},
	} {
		task := calling()
		task.Head.Confirm = executorv1.Confirm_CONFIRM_NEVER
		task.State.Lanes[0].Step.Attempt = 1
		for n := uint32(1); n <= c.steps; n++ {
			failed := flow.Called{
				Ordinal: n, Attempt: 1, Outcome: commonv1.Outcome_OUTCOME_KNOWN,
				Err: &storagev1.ErrorNote{ErrMsg: "not yet", Reason: commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR},
			}
			if _, err := agent.New().Apply(task, 0, failed); err != nil {
				t.Fatalf("%s, step %d: %v", name, n, err)
			}
			if n == c.steps {
				break
			}
			next := flow.Planned{Step: &flow.PlannedStep{ToolID: "s/write", InputJSON: "{}", Risk: &storagev1.RiskNote{}, Retry: c.retry}}
			if _, err := agent.New().Apply(task, 0, next); err != nil {
				t.Fatalf("%s, step %d: %v", name, n+1, err)
			}
		}
		if got := task.State; got.GetErrorCount() != c.count || got.GetStatus() != c.ends || got.GetStepCount() != c.steps {
			t.Errorf("%s: %d failed steps of %d, %s", name, got.GetErrorCount(), got.GetStepCount(), got.GetStatus())
		}
	}
}

// A19: how a task continues after a failed call is what the event says. The input of a playbook's step is not corrected, because the playbook gives it.
func TestRecoveryOfFailedCalls(t *testing.T) {
	for playbook, c := range map[string]struct {
		want executorv1.Recovery
		next flow.Question
	}{
		"":          {executorv1.Recovery_RECOVERY_CORRECT_INPUT, flow.Derive{Ordinal: 1}},
		"steps: []": {executorv1.Recovery_RECOVERY_CONTINUE, flow.Plan{}},
	} {
		task := calling()
		task.Head.Confirm, task.Head.Playbook = executorv1.Confirm_CONFIRM_NEVER, playbook
		task.State.Lanes[0].Step.Attempt = 1
		failed := &storagev1.ErrorNote{ErrMsg: "no such file", Reason: commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED}
		tr, err := agent.New().Apply(task, 0, flow.Called{Ordinal: 1, Attempt: 1, Outcome: commonv1.Outcome_OUTCOME_KNOWN, Err: failed})
		if err != nil || tr.Facts[0].GetStepError().GetRecovery() != c.want || len(tr.Actions) != 1 {
			t.Errorf("playbook %q: %v %v", playbook, tr, err)
		} else if ask, ok := tr.Actions[0].Action.(flow.Ask); !ok || ask.Question != c.next {
			t.Errorf("playbook %q: %v", playbook, tr.Actions)
		}
	}
}
