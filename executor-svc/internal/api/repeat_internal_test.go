package api

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// D9: repeating the rejection of a subtask's call, or of a plan, is harmless; another reason is another answer.
func TestRepeatedRejections(t *testing.T) {
	refused := func(text string) *storagev1.Fact {
		return &storagev1.Fact{WaitId: "wait-1", Kind: &storagev1.Fact_StepError{StepError: &storagev1.StepError{
			Error: &storagev1.ErrorNote{ErrMsg: text, Reason: commonv1.ErrorReason_ERROR_REASON_REJECTED},
		}}}
	}
	plan := &storagev1.Fact{WaitId: "wait-1", Kind: &storagev1.Fact_FlowCancel{FlowCancel: "too long"}}
	for _, c := range []struct {
		answer *storagev1.Fact
		reason string
		want   bool
	}{
		{refused("Cancelled by user"), "", true},
		{refused("Cancelled by user"), "why", false},
		{refused("Cancelled by user: why"), "why", true},
		{refused("Cancelled by user: why"), "", true},
		{refused("Cancelled by user: why"), "because", false},
		{plan, "too long", true},
		{plan, "too short", false},
	} {
		reject := &storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: "wait-1", Reason: c.reason}}}
		if got := isAnswer(c.answer) && repeats(reject, c.answer, approvalQuestion{}); got != c.want {
			t.Errorf("%v repeated for %q: %v", c.answer, c.reason, got)
		}
		approve := &storagev1.Command{Kind: &storagev1.Command_Approve{Approve: &storagev1.Approve{WaitId: "wait-1"}}}
		if repeats(approve, c.answer, approvalQuestion{}) {
			t.Errorf("an approval repeats %v", c.answer)
		}
	}
}
