package agent_test

import (
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A call that may have run is repeated without a person if the tool is repeatable or the policy says so. If the tool has changed since the
// call, the executor decides by the new definition. An approval then says that the call may have run.
func TestChangedBeforeACallWasRepeated(t *testing.T) {
	const never, byRisk = executorv1.Confirm_CONFIRM_NEVER, executorv1.Confirm_CONFIRM_BY_RISK
	const retry = executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY
	for name, c := range map[string]struct {
		before, now commonv1.Effect
		confirm     executorv1.Confirm
		policy      executorv1.OnUnknownOutcome
		asks        bool
	}{
		"is no longer repeatable":       {read, write, never, 0, true},
		"is repeatable as before":       {read, read, never, 0, false},
		"policy, no one is to be asked": {write, write, never, retry, false},
		"policy, a person is asked":     {write, write, byRisk, retry, true},
	} {
		t.Run(name, func(t *testing.T) {
			task := calling()
			task.Head.Confirm, task.Head.OnUnknownOutcome = c.confirm, c.policy
			s := task.State.Lanes[0].Step
			s.Effect, s.Attempt, s.DefinitionHash = c.before, 1, "old"
			on := func(in flow.Input) []flow.LaneAction {
				t.Helper()
				tr, err := agent.New().Apply(task, 0, in)
				if err != nil {
					t.Fatalf("%T: %v", in, err)
				}
				return tr.Actions
			}
			if got := on(losses()["by Pawl"]); len(got) != 1 || got[0].Action != (flow.Call{Ordinal: 1, Attempt: 2}) {
				t.Fatalf("after the loss: %v, want another call", got)
			}
			on(refusal(task.State.Lanes[0].Step))
			got := on(flow.ToolRefreshed{Ordinal: 1, Tool: &flow.Tool{Effect: c.now, DefinitionHash: "new", RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM}})
			if !c.asks {
				if len(got) != 1 || got[0].Action != (flow.Call{Ordinal: 1, Attempt: 3}) {
					t.Errorf("%v, want another call", got)
				}
				return
			}
			waits := task.State.GetWaits()
			if len(got) != 0 || len(waits) != 1 || !strings.Contains(waits[0].GetMessage(), "not known whether it ran") {
				t.Fatalf("%v and %v, want to ask, and to say that it may have run", got, waits)
			}
			approve := &storagev1.Approve{WaitId: waits[0].GetId(), InputJson: `{"other":1}`}
			on(flow.Command{Command: &storagev1.Command{Kind: &storagev1.Command_Approve{Approve: approve}}})
			on(refusal(task.State.Lanes[0].Step))
			on(flow.ToolRefreshed{Ordinal: 1, Tool: &flow.Tool{Effect: write, DefinitionHash: "newer", RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM}})
			for _, w := range task.State.GetWaits() {
				if strings.Contains(w.GetMessage(), "not known whether it ran") {
					t.Errorf("about an input that was never called: %q", w.GetMessage())
				}
			}
		})
	}
}
