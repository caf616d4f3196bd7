package flow

import (
	"slices"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Clone copies a checkpoint so far that a flow may change the copy: what flows only replace is shared. It is made for each
// move, and costs a fraction of proto.Clone.
func Clone(c *storagev1.Checkpoint) *storagev1.Checkpoint {
	// Allocated at once, as the usual task has it.
	room := &struct {
		checkpoint storagev1.Checkpoint
		usage      storagev1.Usage
		step       storagev1.ActiveStep
		steps      [1]*storagev1.ActiveStep
	}{}
	out := &room.checkpoint
	*out = storagev1.Checkpoint{
		Rev: c.GetRev(), Status: c.GetStatus(), Phase: c.GetPhase(), Name: c.GetName(), Risk: c.GetRisk(),
		StepCount: c.GetStepCount(), ErrorCount: c.GetErrorCount(), Waits: slices.Clone(c.GetWaits()), WaitCount: c.GetWaitCount(),
		CancelRequested: c.GetCancelRequested(), CancelReason: c.GetCancelReason(), LastSeq: c.GetLastSeq(),
		FlowStartSeq: c.GetFlowStartSeq(), UpdateTime: c.GetUpdateTime(), EndTime: c.GetEndTime(), Usage: cloneUsage(&room.usage, c.GetUsage()),
		Error: c.GetError(), AnswerCount: c.GetAnswerCount(), AnswerBytes: c.GetAnswerBytes(), CutShort: c.GetCutShort(),
		PauseRequested: c.GetPauseRequested(), PausedPhase: c.GetPausedPhase(), Grants: slices.Clone(c.GetGrants()),
		UnknownCalls: slices.Clone(c.GetUnknownCalls()), ReservedModelCalls: c.GetReservedModelCalls(), Takeups: c.GetTakeups(),
		RunTime: c.GetRunTime(), RunSince: c.GetRunSince(),
	}
	switch n := len(c.GetActiveSteps()); n {
	case 0:
	case 1:
		out.ActiveSteps = append(room.steps[:0], cloneStep(&room.step, c.GetActiveSteps()[0]))
	default:
		out.ActiveSteps = make([]*storagev1.ActiveStep, n)
		for i, s := range c.GetActiveSteps() {
			out.ActiveSteps[i] = cloneStep(&storagev1.ActiveStep{}, s)
		}
	}
	return out
}

func cloneStep(out, s *storagev1.ActiveStep) *storagev1.ActiveStep {
	*out = storagev1.ActiveStep{
		Ordinal: s.GetOrdinal(), ToolId: s.GetToolId(), Description: s.GetDescription(), Status: s.GetStatus(), Outcome: s.GetOutcome(),
		Attempt: s.GetAttempt(), InputJson: s.GetInputJson(), Effect: s.GetEffect(), Idempotent: s.GetIdempotent(),
		RiskFloor: s.GetRiskFloor(), DefinitionHash: s.GetDefinitionHash(), Risk: s.GetRisk(), Error: s.GetError(),
		Supplied: s.GetSupplied(), SubtaskId: s.GetSubtaskId(), ApprovedHash: s.GetApprovedHash(), InputSeq: s.GetInputSeq(),
		ConfigRevision: s.GetConfigRevision(), PoolId: s.GetPoolId(), Leg: s.GetLeg(), McpTaskId: s.GetMcpTaskId(),
		RequestState: s.GetRequestState(), Answers: slices.Clone(s.GetAnswers()), AnswersSent: s.GetAnswersSent(),
		Accepted: slices.Clone(s.GetAccepted()), PlannedRisk: s.GetPlannedRisk(), Repeated: s.GetRepeated(),
	}
	return out
}

func cloneUsage(out, u *storagev1.Usage) *storagev1.Usage {
	if u == nil {
		return nil
	}
	out.InputTokens, out.OutputTokens, out.ModelCalls, out.ToolCalls = u.GetInputTokens(), u.GetOutputTokens(), u.GetModelCalls(), u.GetToolCalls()
	return out
}
