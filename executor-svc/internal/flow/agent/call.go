package agent

import (
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func (m *move) progress(in flow.Progress) {
	s := m.current(in.Ordinal)
	if s == nil {
		return
	}
	m.stepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_ToolProgress{ToolProgress: in.Progress}})
}

// called records the outcome of a call, also after a cancel or a pause.
func (m *move) called(in flow.Called) {
	s := m.attempted(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	if in.Outcome == outcomeNotExecuted {
		in.Outcome = outcomeNotBegun(s)
	}
	answers := s.GetAnswers()
	forgetCall(s)
	s.Outcome = in.Outcome
	if in.Outcome == outcomeKnown {
		s.Accepted = nil // the tool has received them
	}
	if in.Outcome != outcomeNotExecuted && !flow.FromHistory(s) {
		m.spend(&storagev1.Usage{ToolCalls: 1})
	}
	if in.Usage != nil {
		m.spend(in.Usage)
	}
	switch {
	case in.Err == nil:
		m.succeeded(s, in)
	case m.s.GetCancelRequested():
		m.calledCancelled(s, in)
	case in.Outcome == outcomeUnknown:
		m.settleUnknown(s, in, answers)
	case in.Outcome == outcomeNotExecuted && in.Lost && s.GetAttempt() < m.t.Head.GetLimits().GetMaxAttempts():
		m.callAgain(s, in.Err, outcomeNotExecuted) // it never reached the tool (A11)
	case m.mustRefreshTool(s, in):
		m.refreshTool(s, in.Err)
	default:
		m.attemptFailed(s, in.Err, in.Outcome)
	}
}

// moved lets another replica of the MCP pool make a call that the first one certainly did not make. The attempt stays the same.
func (m *move) moved(in flow.Moved) {
	s := m.attempted(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	s.PoolId = in.PoolID
	m.startCall(s)
}

// succeeded continues at once if the next step is known: outcome and next intent are one transition.
func (m *move) succeeded(s *storagev1.ActiveStep, in flow.Called) {
	m.setStepStatus(s, stepSuccess)
	m.stepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepOutput{StepOutput: in.Output}})
	switch {
	case m.s.GetCancelRequested():
		m.cancelled(m.s.GetCancelReason(), "")
	case in.Next != nil:
		m.finish(s)
		m.s.Phase = storagev1.Phase_PHASE_PLAN
		m.planned(*in.Next)
	default:
		m.planNext(s)
	}
}

// calledCancelled ends a cancelled task whose call has failed.
func (m *move) calledCancelled(s *storagev1.ActiveStep, in flow.Called) {
	if in.Outcome == outcomeKnown && in.Err.GetReason() != commonv1.ErrorReason_ERROR_REASON_CANCELLED {
		m.recordError(s, in.Err, in.Outcome)
		m.cancelled(m.s.GetCancelReason(), "")
		return
	}
	m.cancelStep(s, m.s.GetCancelReason(), "", in.Outcome)
	m.cancelled(m.s.GetCancelReason(), "")
}

// attempted returns the step if this attempt of it runs; a result of another attempt is stale.
func (m *move) attempted(ordinal, attempt uint32) *storagev1.ActiveStep {
	s := m.current(ordinal)
	if s == nil {
		return nil
	}
	if s.GetAttempt() != attempt || s.GetStatus() != stepRunning {
		m.refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"a result of attempt %d came while attempt %d of %s is %s", attempt, s.GetAttempt(), flow.StepID(s.GetOrdinal()), s.GetStatus()))
		return nil
	}
	return s
}

func (m *move) recordError(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) {
	m.setStepStatus(s, stepError)
	s.Outcome, s.Error = o, e
	m.stepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepError{StepError: &storagev1.StepError{Error: e, Outcome: o}}})
}

// failWaitingStep fails a step that waited. The error belongs to the step, because its attempt, if any, ended before (A17).
func (m *move) failWaitingStep(s *storagev1.ActiveStep, e *storagev1.ErrorNote, waitID string) {
	m.recordError(s, e, s.GetOutcome())
	f := m.facts[len(m.facts)-1]
	f.Attempt, f.WaitId = 0, waitID
}

// attemptFailed records a failed attempt and decides how the task continues (A11, A13–A16, A19, A20).
func (m *move) attemptFailed(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) {
	m.recordError(s, e, o)
	switch {
	case o == outcomeUnknown || !inputMayHelp(e):
		m.stepFailed(s)
	case m.t.Head.GetConfirm() == executorv1.Confirm_CONFIRM_ALWAYS || m.t.Head.GetConfirm() == executorv1.Confirm_CONFIRM_UNSPECIFIED:
		m.s.Phase = storagev1.Phase_PHASE_DIAGNOSE
		m.schedule(diagnose(s))
	case s.GetAttempt() < m.t.Head.GetLimits().GetMaxAttempts():
		m.s.Phase = storagev1.Phase_PHASE_DERIVE
		m.schedule(flow.Derive{Ordinal: s.GetOrdinal()})
	default:
		m.stepFailed(s)
	}
}

// stepFailed ends a failed step: the next one is planned, unless too many have failed (A19, A20).
func (m *move) stepFailed(s *storagev1.ActiveStep) {
	m.s.ErrorCount++
	if limit := m.t.Head.GetLimits().GetMaxFailedSteps(); m.s.GetErrorCount() >= limit {
		m.fail(&storagev1.ErrorNote{
			ErrMsg:   plural(limit, "step") + " failed, which is the limit; the last error was: " + s.GetError().GetErrMsg(),
			DataJson: s.GetError().GetDataJson(),
			Reason:   commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
		})
		return
	}
	m.planNext(s)
}

// derived continues with an input made by Derive or Fill (A10, A11).
func (m *move) derived(in flow.Derived) {
	m.settleReserve(in.Usage)
	s := m.current(in.Ordinal)
	if s == nil {
		return
	}
	filled := m.s.GetPhase() == storagev1.Phase_PHASE_FILL
	if in.Err != nil {
		m.notDerived(s, in.Err)
		return
	}
	if !filled && in.Input == s.GetInputJson() {
		// The same input would fail in the same way.
		m.stepFailed(s)
		return
	}
	s.Repeated = s.GetRepeated() && in.Input == s.GetInputJson()
	s.InputJson, s.InputSeq, s.Supplied = in.Input, 0, nil
	m.adopt(s, in.Tool)
	if !filled {
		m.setStepStatus(s, stepInit)
	}
	m.start(s, in.Problem)
}

// notDerived fails a step for which the planner could make no input.
func (m *move) notDerived(s *storagev1.ActiveStep, e *storagev1.ErrorNote) {
	if s.GetStatus() == stepParam {
		m.failWaitingStep(s, e, "")
	}
	m.stepFailed(s)
}

// notStarted records that a call was never sent, so that it is made when the next owner loads the task.
func (m *move) notStarted(in flow.NotStarted) {
	s := m.current(in.Ordinal)
	if s == nil {
		return
	}
	s.Outcome = outcomeNotExecuted
}

// resumeCall continues a call of an earlier owner: one that was never sent is made now, the outcome of another one is asked for.
func (m *move) resumeCall() {
	s := m.step()
	if s == nil {
		return
	}
	if s.GetOutcome() == outcomeNotExecuted {
		m.startCall(s)
		return
	}
	if m.s.GetCancelRequested() {
		m.follow(s, "the task was cancelled")
		return
	}
	m.schedule(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// startCall starts a call whose intent is durable but which was never sent. It first clears Outcome (NOT_EXECUTED) durably, because from
// here on the call may run.
func (m *move) startCall(s *storagev1.ActiveStep) {
	if m.s.GetCancelRequested() {
		m.calledCancelled(s, flow.Called{Outcome: outcomeNotBegun(s), Err: &storagev1.ErrorNote{Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED}})
		return
	}
	if spent := m.timeSpent(); spent != "" {
		m.called(flow.Called{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), Outcome: outcomeNotBegun(s), Err: &storagev1.ErrorNote{
			ErrMsg: "the task's budget of " + spent + " is spent", Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
		}})
		return
	}
	s.Outcome = commonv1.Outcome_OUTCOME_UNSPECIFIED
	m.unchanged = false // the cleared outcome is committed before the call
	m.schedule(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// outcomeNotBegun returns the outcome of an attempt whose newest call was never sent: UNKNOWN if an earlier call of the attempt, which
// asked something, reached the tool.
func outcomeNotBegun(s *storagev1.ActiveStep) commonv1.Outcome {
	if len(s.GetAnswers()) > 0 {
		return outcomeUnknown
	}
	return outcomeNotExecuted
}

// inputMayHelp reports whether another input could succeed; it cannot if the tool was out of reach or forbidden (A14).
func inputMayHelp(e *storagev1.ErrorNote) bool {
	switch e.GetReason() {
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
		commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED,
		commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
		commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED:
		return true
	}
	return false
}
