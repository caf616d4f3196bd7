package agent_test

import (
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

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
