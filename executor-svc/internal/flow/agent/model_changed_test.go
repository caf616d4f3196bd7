package agent_test

import (
	"bytes"
	"fmt"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// refusal returns the outcome of a call whose server has changed since the step was decided on.
func refusal(s *storagev1.ActiveStep) flow.Called {
	return flow.Called{
		Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), Outcome: commonv1.Outcome_OUTCOME_NOT_EXECUTED,
		Err: &storagev1.ErrorNote{ErrMsg: "changed", Reason: commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED},
	}
}

// refreshed returns what listing the tools again finds.
func (w *world) refreshed(ordinal uint32) flow.ToolRefreshed {
	s := w.pool.step(ordinal)
	out := flow.ToolRefreshed{Ordinal: ordinal, Problem: w.problem(), Tool: &flow.Tool{
		Effect: s.GetEffect(), Idempotent: s.GetIdempotent(), RiskFloor: levels.Draw(w.T, "floor"), ConfigRevision: w.pool.revision,
	}}
	if levels.Draw(w.T, "gone") == commonv1.RiskLevel_RISK_LEVEL_HIGH {
		out.Tool, out.Err = nil, &storagev1.ErrorNote{ErrMsg: "gone", Reason: commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND}
	}
	return out
}

// approvals holds, by step, the revision of the server that a person was shown when they said yes.
type approvals map[uint32]uint64

func (a approvals) said(s *storagev1.ActiveStep) {
	if s != nil {
		a[s.GetOrdinal()] = s.GetConfigRevision()
	}
}

// granted notes that a grant for the tool of s also approves the same tool's first calls in other lanes.
func (a approvals) granted(s *storagev1.ActiveStep, lanes []*storagev1.Lane) {
	for _, l := range lanes {
		if o := l.GetStep(); o.GetAttempt() == 0 && o.GetToolId() == s.GetToolId() && o.GetConfigRevision() == s.GetConfigRevision() {
			a.said(o)
		}
	}
}

// void says what is wrong with an attempt that begins because it was approved: the approval was for another revision.
func (a approvals) void(s *storagev1.ActiveStep) string {
	if s == nil || !bytes.Equal(s.GetApprovedHash(), flow.InputHash(s.GetInputJson())) {
		return ""
	}
	if shown, ok := a[s.GetOrdinal()]; !ok || shown != s.GetConfigRevision() {
		return fmt.Sprintf("step %d begins with an approval for revision %d, and is of revision %d", s.GetOrdinal(), shown, s.GetConfigRevision())
	}
	return ""
}
