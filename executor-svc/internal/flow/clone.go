package flow

import (
	"slices"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Clone copies a checkpoint so far that a flow may change the copy: what flows only replace is shared. It is made for each
// move, and costs a fraction of proto.Clone.
func Clone(c *storagev1.Checkpoint) *storagev1.Checkpoint {
	out := &storagev1.Checkpoint{
		Rev: c.GetRev(), Status: c.GetStatus(), Phase: c.GetPhase(), Name: c.GetName(), Risk: c.GetRisk(),
		StepCount: c.GetStepCount(), ErrorCount: c.GetErrorCount(), Waits: slices.Clone(c.GetWaits()), WaitCount: c.GetWaitCount(),
		CancelRequested: c.GetCancelRequested(), CancelReason: c.GetCancelReason(), LastSeq: c.GetLastSeq(),
		FlowStartSeq: c.GetFlowStartSeq(), UpdateTime: c.GetUpdateTime(), EndTime: c.GetEndTime(), Usage: cloneUsage(c.GetUsage()),
		Error: c.GetError(), AnswerCount: c.GetAnswerCount(), AnswerBytes: c.GetAnswerBytes(), CutShort: c.GetCutShort(),
		PauseRequested: c.GetPauseRequested(), PausedPhase: c.GetPausedPhase(), Grants: slices.Clone(c.GetGrants()),
		UnknownCalls: slices.Clone(c.GetUnknownCalls()), ReservedModelCalls: c.GetReservedModelCalls(), Takeups: c.GetTakeups(),
		RunTime: c.GetRunTime(), RunSince: c.GetRunSince(),
	}
	if n := len(c.GetActiveSteps()); n > 0 {
		out.ActiveSteps = make([]*storagev1.ActiveStep, n)
		for i, s := range c.GetActiveSteps() {
			out.ActiveSteps[i] = cloneStep(s)
		}
	}
	return out
}

func cloneStep(s *storagev1.ActiveStep) *storagev1.ActiveStep {
	return &storagev1.ActiveStep{
		Ordinal: s.GetOrdinal(), ToolId: s.GetToolId(), Description: s.GetDescription(), Status: s.GetStatus(), Outcome: s.GetOutcome(),
		Attempt: s.GetAttempt(), InputJson: s.GetInputJson(), Effect: s.GetEffect(), Idempotent: s.GetIdempotent(),
		RiskFloor: s.GetRiskFloor(), DefinitionHash: s.GetDefinitionHash(), Risk: s.GetRisk(), Error: s.GetError(),
		Supplied: s.GetSupplied(), SubtaskId: s.GetSubtaskId(), ApprovedHash: s.GetApprovedHash(), InputSeq: s.GetInputSeq(),
		ConfigRevision: s.GetConfigRevision(), PoolId: s.GetPoolId(), Leg: s.GetLeg(), McpTaskId: s.GetMcpTaskId(),
		RequestState: s.GetRequestState(), Answers: slices.Clone(s.GetAnswers()), AnswersSent: s.GetAnswersSent(),
		Accepted: slices.Clone(s.GetAccepted()), PlannedRisk: s.GetPlannedRisk(),
	}
}

func cloneUsage(u *storagev1.Usage) *storagev1.Usage {
	if u == nil {
		return nil
	}
	return &storagev1.Usage{
		InputTokens: u.GetInputTokens(), OutputTokens: u.GetOutputTokens(), ModelCalls: u.GetModelCalls(), ToolCalls: u.GetToolCalls(),
	}
}
