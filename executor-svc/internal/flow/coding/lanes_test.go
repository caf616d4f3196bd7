package coding

import (
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A call that was cancelled with its subtask and may have run is not made by another subtask without a person's approval.
func TestCancelledCallIsNotRepeated(t *testing.T) {
	r := newRig(t)
	r.plan("a b")
	r.thinks("a", calls("run"))
	if err := r.cancel("a"); err != nil {
		t.Fatal(err)
	}
	lost := failure("CANCELLED", "lost")
	lost.Outcome = commonv1.Outcome_OUTCOME_UNKNOWN
	r.called("a", lost)
	r.events()
	r.thinks("b", calls("run"))
	if waits := r.task.State.GetWaits(); len(waits) != 1 || waits[0].GetKind() != executorv1.WaitKind_WAIT_KIND_APPROVAL {
		t.Errorf("%v, want an approval: %v", waits, r.events())
	}
}

// A change of the plan leaves what is known of running subtasks as it is.
func TestPlanChangeKeepsRunningSubtasks(t *testing.T) {
	r := newRig(t)
	r.plan("a c:a")
	ended := false
	for i := range 3 {
		in := undone("nothing")
		in.Change = &flow.PlanChange{Add: subtasks("d" + string(rune('0'+i)) + ":c")}
		r.thinks("a", in)
		if ended = strings.Contains(r.events(), "FAILED"); ended {
			break
		}
	}
	if !ended {
		t.Error("two thoughts in a row without a call, which change the plan, do not end the subtask")
	}
}

// A plan that a person enlarged beyond the limit can still be made smaller.
func TestEnlargedPlanCanShrink(t *testing.T) {
	r := newRig(t, func(h *storagev1.TaskHead) {
		h.PlanOptions = &executorv1.PlanOptions{MaxSubtasks: 2, Confirm: executorv1.ConfirmPlan_CONFIRM_PLAN_ALWAYS}
	})
	r.plan("a b")
	approve := &storagev1.Approve{WaitId: "wait-1", Plan: &storagev1.PlanCreated{Subtasks: subtasks("a b c:a d:a")}}
	if err := r.command(&storagev1.Command{Kind: &storagev1.Command_Approve{Approve: approve}}); err != nil {
		t.Fatal(err)
	}
	in := calls("read")
	in.Change = &flow.PlanChange{Drop: []string{"d"}, Reason: "not needed"}
	r.thinks("a", in)
	rules, err := load(r.task.State)
	if err != nil || !rules.subtask("d").GetDropped() {
		t.Errorf("it is not dropped: %v %v", rules.subtask("d"), err)
	}
}

// A call that waits for a person is withdrawn and counted once when its task fails.
func TestFailWithdrawsOnce(t *testing.T) {
	r := newRig(t)
	r.plan("a b")
	r.thinks("a", calls("run"))
	a := r.pop("a", isCall)
	s := flow.LaneOf(r.task.State, a.Lane).GetStep()
	r.must(a.Lane, flow.Elicited{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Elicitations: []flow.Elicitation{{InputID: "i", Message: "m", SchemaJSON: "{}"}}})
	tr, err := Flow{}.Fail(r.task, &storagev1.ErrorNote{ErrMsg: "x"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, a := range tr.Actions {
		if _, ok := a.Action.(flow.Withdraw); ok {
			n++
		}
	}
	if n != 1 || r.task.State.GetUsage().GetToolCalls() != 1 {
		t.Errorf("%d withdrawn, %v", n, r.task.State.GetUsage())
	}
}
