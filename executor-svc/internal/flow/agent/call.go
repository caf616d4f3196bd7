package agent

import (
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func (m *move) progress(in flow.Progress) error {
	s, err := m.current(in.Ordinal)
	if err != nil {
		return err
	}
	m.stepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_ToolProgress{ToolProgress: in.Progress}})
	return nil
}

// called records what came of a call, whatever else was asked meanwhile: an outcome that came back is never lost.
func (m *move) called(in flow.Called) error {
	s, err := m.attempted(in.Ordinal, in.Attempt)
	if err != nil {
		return err
	}
	if in.Outcome == notExecuted {
		in.Outcome = notBegun(s)
	}
	answers := s.GetAnswers()
	forgetCall(s)
	s.Outcome = in.Outcome
	if in.Outcome == known {
		s.Accepted = nil // the tool has had them
	}
	if in.Outcome != notExecuted {
		m.spend(&storagev1.Usage{ToolCalls: 1})
	}
	if in.Err == nil {
		return m.succeeded(s, in)
	}
	if m.s.GetCancelRequested() {
		return m.calledCancelled(s, in)
	}
	switch {
	case in.Outcome == unknown:
		return m.outcomeUnknown(s, in, answers)
	case in.Outcome == notExecuted && in.Lost && s.GetAttempt() < m.t.Head.GetLimits().GetMaxAttempts():
		return m.callAgain(s, in.Err, notExecuted) // it never came to the tool (A11)
	case m.outdated(s, in):
		return m.lookAgain(s, in.Err)
	}
	return m.attemptFailed(s, in.Err, in.Outcome)
}

// moved has another pool make a call that the one before provably did not make. It is the same attempt: nothing was tried.
func (m *move) moved(in flow.Moved) error {
	s, err := m.attempted(in.Ordinal, in.Attempt)
	if err != nil {
		return err
	}
	s.PoolId = in.PoolID
	return m.startNow(s)
}

// succeeded goes on at once where the next step is known: outcome and next intent are one transition.
func (m *move) succeeded(s *storagev1.ActiveStep, in flow.Called) error {
	if err := m.stepTo(s, stepSuccess); err != nil {
		return err
	}
	m.stepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepOutput{StepOutput: in.Output}})
	switch {
	case m.s.GetCancelRequested():
		return m.cancelled(m.s.GetCancelReason(), "")
	case in.Next != nil:
		m.finish(s)
		m.s.Phase = storagev1.Phase_PHASE_PLAN
		return m.planned(*in.Next)
	}
	m.planNext(s)
	return nil
}

// calledCancelled ends a task whose call failed after somebody had cancelled it.
func (m *move) calledCancelled(s *storagev1.ActiveStep, in flow.Called) error {
	if in.Outcome == known && in.Err.GetReason() != commonv1.ErrorReason_ERROR_REASON_CANCELLED {
		if err := m.recordError(s, in.Err, in.Outcome); err != nil {
			return err
		}
		return m.cancelled(m.s.GetCancelReason(), "")
	}
	if err := m.cancelStep(s, m.s.GetCancelReason(), "", in.Outcome); err != nil {
		return err
	}
	return m.cancelled(m.s.GetCancelReason(), "")
}

// attempted returns the step whose attempt runs; what comes of another one is stale.
func (m *move) attempted(ordinal, attempt uint32) (*storagev1.ActiveStep, error) {
	s, err := m.current(ordinal)
	if err != nil {
		return nil, err
	}
	if s.GetAttempt() != attempt || s.GetStatus() != stepRunning {
		return nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"a result of attempt %d came while attempt %d of %s is %s", attempt, s.GetAttempt(), flow.StepID(s.GetOrdinal()), s.GetStatus())
	}
	return s, nil
}

func (m *move) recordError(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) error {
	if err := m.stepTo(s, stepError); err != nil {
		return err
	}
	s.Outcome, s.Error = o, e
	m.stepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepError{StepError: &storagev1.StepError{Error: e, Outcome: o}}})
	return nil
}

// stepEnds ends a step that was waiting. The error is the step's: its attempt, if there was one, has ended before (A17).
func (m *move) stepEnds(s *storagev1.ActiveStep, e *storagev1.ErrorNote, waitID string) error {
	if err := m.recordError(s, e, s.GetOutcome()); err != nil {
		return err
	}
	f := m.facts[len(m.facts)-1]
	f.Attempt, f.WaitId = 0, waitID
	return nil
}

// attemptFailed records a failed attempt and decides how the task goes on (A11, A13–A16, A19, A20).
func (m *move) attemptFailed(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) error {
	if err := m.recordError(s, e, o); err != nil {
		return err
	}
	switch {
	case o == unknown || !inputMayHelp(e):
		return m.stepFailed(s)
	case m.t.Head.GetConfirm() == executorv1.Confirm_CONFIRM_ALWAYS || m.t.Head.GetConfirm() == executorv1.Confirm_CONFIRM_UNSPECIFIED:
		m.s.Phase = storagev1.Phase_PHASE_DIAGNOSE
		m.run(judge(s))
		return nil
	case s.GetAttempt() < m.t.Head.GetLimits().GetMaxAttempts():
		m.s.Phase = storagev1.Phase_PHASE_DERIVE
		m.run(flow.Derive{Ordinal: s.GetOrdinal()})
		return nil
	}
	return m.stepFailed(s)
}

// stepFailed gives a step up: the next one is planned, unless too many have failed (A19, A20).
func (m *move) stepFailed(s *storagev1.ActiveStep) error {
	m.s.ErrorCount++
	if limit := m.t.Head.GetLimits().GetMaxFailedSteps(); m.s.GetErrorCount() >= limit {
		return m.fail(&storagev1.ErrorNote{
			ErrMsg:   plural(limit, "step") + " failed, which is the limit; the last error was: " + s.GetError().GetErrMsg(),
			DataJson: s.GetError().GetDataJson(),
			Reason:   commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
		})
	}
	m.planNext(s)
	return nil
}

// derived goes on with an input that was made anew or mended (A10, A11).
func (m *move) derived(in flow.Derived) error {
	m.settleReserve(in.Usage)
	s, err := m.current(in.Ordinal)
	if err != nil {
		return err
	}
	filled := m.s.GetPhase() == storagev1.Phase_PHASE_FILL
	if in.Err != nil {
		return m.notDerived(s, in.Err)
	}
	if !filled && in.Input == s.GetInputJson() {
		// The same input would fail the same way: a further attempt is not worth its cost.
		return m.stepFailed(s)
	}
	s.Repeated = s.GetRepeated() && in.Input == s.GetInputJson()
	s.InputJson, s.InputSeq, s.Supplied = in.Input, 0, nil
	m.adopt(s, in.Tool)
	if !filled {
		if err := m.stepTo(s, stepInit); err != nil {
			return err
		}
	}
	return m.start(s, in.Problem)
}

// notDerived gives up a step for which the planner could make no input.
func (m *move) notDerived(s *storagev1.ActiveStep, e *storagev1.ErrorNote) error {
	if s.GetStatus() == stepParam {
		if err := m.stepEnds(s, e, ""); err != nil {
			return err
		}
	}
	return m.stepFailed(s)
}

// notStarted remembers that a call was not begun, so that it is made when the task is taken up.
func (m *move) notStarted(in flow.NotStarted) error {
	s, err := m.current(in.Ordinal)
	if err != nil {
		return err
	}
	s.Outcome = notExecuted
	return nil
}

// interrupted asks what became of a call whose outcome was lost with the process that made it.
func (m *move) interrupted() error {
	s, err := m.step()
	if err != nil {
		return err
	}
	if s.GetOutcome() == notExecuted {
		return m.startNow(s)
	}
	if m.s.GetCancelRequested() {
		m.follow(s, "the task was cancelled")
		return nil
	}
	m.run(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
	return nil
}

// startNow makes a call that was intended but not begun. What said so is taken back before the call starts.
func (m *move) startNow(s *storagev1.ActiveStep) error {
	if m.s.GetCancelRequested() {
		return m.calledCancelled(s, flow.Called{Outcome: notBegun(s), Err: &storagev1.ErrorNote{Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED}})
	}
	if spent := m.timeSpent(); spent != "" {
		return m.called(flow.Called{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), Outcome: notBegun(s), Err: &storagev1.ErrorNote{
			ErrMsg: "the task's budget of " + spent + " is spent", Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
		}})
	}
	s.Outcome = commonv1.Outcome_OUTCOME_UNSPECIFIED
	m.unchanged = false // it is committed before the call
	m.run(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
	return nil
}

// notBegun is what is known of an attempt whose newest call was not begun: an earlier one came to the tool, where that asked.
func notBegun(s *storagev1.ActiveStep) commonv1.Outcome {
	if len(s.GetAnswers()) > 0 {
		return unknown
	}
	return notExecuted
}

// inputMayHelp says whether another input could succeed; it cannot where the tool was out of reach or forbidden (A14).
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
