package step

import (
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func (l Lane) progress(in flow.Progress) {
	s := l.activeStepWith(in.Ordinal)
	if s == nil {
		return
	}
	l.addStepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_ToolProgress{ToolProgress: in.Progress}})
}

// called records the outcome of a call, also after a cancel or a pause.
func (l Lane) called(in flow.Called) {
	s := l.runningAttempt(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	if in.Outcome == outcomeNotExecuted {
		in.Outcome = unreachedOutcome(s)
	}
	answers := s.GetAnswers()
	forgetCall(s)
	s.Outcome = in.Outcome
	if in.Outcome == outcomeKnown {
		s.Accepted = nil // the tool has received the accepted answers
	}
	if in.Outcome != outcomeNotExecuted && !flow.IsReadOutput(s) {
		l.AddUsage(&storagev1.Usage{ToolCalls: 1})
	}
	l.settle(in.Usage)
	switch {
	case in.Err == nil:
		l.recordOutput(s, in)
	case l.ending():
		l.endCancelledCall(s, in)
	case in.Outcome == outcomeUnknown:
		l.settleUnknown(s, in, answers)
	case in.Outcome == outcomeNotExecuted && in.Lost && s.GetAttempt() < l.Task.Head.GetLimits().GetMaxAttempts():
		l.callAgain(s, in.Err, outcomeNotExecuted) // it never reached the tool
	case l.mustRefreshTool(s, in):
		l.refreshTool(s, in.Err)
	default:
		l.failAttempt(s, in.Err, in.Outcome)
	}
}

// moved sends a call that was not made to another replica of the MCP pool. The attempt stays the same.
func (l Lane) moved(in flow.Moved) {
	s := l.runningAttempt(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	s.PoolId = in.PoolID
	l.startCall(s)
}

// recordOutput records a step's output. If the next step is known, recordOutput starts it in the same transition.
func (l Lane) recordOutput(s *storagev1.ActiveStep, in flow.Called) {
	l.rules.Observe(l, s, in.Output)
	l.setStepStatus(s, stepSuccess)
	l.addStepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepOutput{StepOutput: in.Output}})
	if l.ending() {
		l.stopped()
		return
	}
	l.State.Step = nil
	l.rules.StepEnded(l, s, in.Next)
}

// runningAttempt returns the active step if it has this ordinal and is running this attempt; else it refuses the draft and returns nil.
func (l Lane) runningAttempt(ordinal, attempt uint32) *storagev1.ActiveStep {
	s := l.activeStepWith(ordinal)
	if s == nil {
		return nil
	}
	if s.GetAttempt() != attempt || s.GetStatus() != stepRunning {
		l.Refuse(defect("a result of attempt %d arrived while attempt %d of %s is %s", attempt, s.GetAttempt(), flow.StepID(s.GetOrdinal()), s.GetStatus()))
		return nil
	}
	return s
}

// recordError records a failed attempt, the class of its error and how the task continues.
func (d *Draft) recordError(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome, then executorv1.Recovery) {
	d.setStepStatus(s, stepError)
	s.Outcome, s.Error = o, e
	d.addStepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepError{StepError: &storagev1.StepError{
		Error: e, Outcome: o, ErrorClass: flow.ClassOf(e), Recovery: then,
	}}})
}

// FailWaitingStep fails a step that waits. The error belongs to no attempt: the newest one, if any, has already ended.
func (l Lane) FailWaitingStep(s *storagev1.ActiveStep, e *storagev1.ErrorNote, waitID string, then executorv1.Recovery) {
	l.recordError(s, e, s.GetOutcome(), then)
	l.lastFact().Attempt, l.lastFact().WaitId = 0, waitID
}

// failAttempt records a failed attempt; the flow decides how the step continues.
func (l Lane) failAttempt(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) {
	then := l.rules.Recover(l, s, e, o)
	l.recordError(s, e, o, then)
	switch {
	case then == executorv1.Recovery_RECOVERY_ASK && flow.ClassOf(e) == executorv1.ErrorClass_ERROR_CLASS_PERMISSION:
		l.askPermission(s, e)
	case then == executorv1.Recovery_RECOVERY_ASK:
		l.Ask(storagev1.Phase_PHASE_DIAGNOSE, diagnoseQuestion(s))
	case then == executorv1.Recovery_RECOVERY_CORRECT_INPUT:
		l.Ask(storagev1.Phase_PHASE_DERIVE, flow.Derive{Ordinal: s.GetOrdinal()})
	default:
		l.rules.StepFailed(l, s)
	}
}

// derived continues with an input made by Derive or Fill.
func (l Lane) derived(in flow.Derived) {
	s := l.activeStepWith(in.Ordinal)
	if s == nil {
		return
	}
	filled := l.State.GetPhase() == storagev1.Phase_PHASE_FILL
	if in.Err != nil {
		l.failDerivation(s, in.Err)
		return
	}
	if !filled && in.Input == s.GetInputJson() {
		// The same input would fail in the same way.
		l.rules.StepFailed(l, s)
		return
	}
	s.Repeated = s.GetRepeated() && in.Input == s.GetInputJson()
	s.InputJson, s.InputSeq, s.Supplied = in.Input, 0, nil
	l.bindTool(s, in.Tool)
	if !filled {
		l.setStepStatus(s, stepInit)
	}
	l.start(s, in.Problem)
}

// failDerivation fails a step because the planner could not make an input.
func (l Lane) failDerivation(s *storagev1.ActiveStep, e *storagev1.ErrorNote) {
	if s.GetStatus() == stepParam {
		l.FailWaitingStep(s, e, "", executorv1.Recovery_RECOVERY_CONTINUE)
	}
	l.rules.StepFailed(l, s)
}

// notStarted records that a call was never sent, so that the task's next owner sends it.
func (l Lane) notStarted(in flow.NotStarted) {
	s := l.activeStepWith(in.Ordinal)
	if s == nil {
		return
	}
	s.Outcome = outcomeNotExecuted
}

// resumeCall continues the call of an earlier owner. It sends the call if it was never sent, else attaches to it.
func (l Lane) resumeCall() {
	s := l.activeStep()
	if s == nil {
		return
	}
	if s.GetOutcome() == outcomeNotExecuted {
		l.startCall(s)
		return
	}
	if _, cancelled := l.cancelled(); cancelled {
		l.stopAndAttach(s, "the task was cancelled")
		return
	}
	l.Schedule(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// startCall sends a call whose intent is durable and that did not run, unless the task was cancelled or its run time is spent. It clears the
// outcome NOT_EXECUTED, because from now on the call may run.
func (l Lane) startCall(s *storagev1.ActiveStep) {
	if l.ending() {
		l.endCancelledCall(s, flow.Called{Outcome: unreachedOutcome(s), Err: &storagev1.ErrorNote{
			ErrMsg: "the task ends", Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED,
		}})
		return
	}
	if spent := l.spentRunTime(); spent != "" {
		l.called(flow.Called{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), Outcome: unreachedOutcome(s), Err: &storagev1.ErrorNote{
			ErrMsg: "the task's budget of " + spent + " is spent", Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
		}})
		return
	}
	s.Outcome = commonv1.Outcome_OUTCOME_UNSPECIFIED
	l.unchanged = false
	l.Schedule(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// unreachedOutcome returns the outcome of an attempt whose newest call never reached the tool: UNKNOWN if an earlier call of the attempt
// reached it and asked a question, else NOT_EXECUTED.
func unreachedOutcome(s *storagev1.ActiveStep) commonv1.Outcome {
	if len(s.GetAnswers()) > 0 {
		return outcomeUnknown
	}
	return outcomeNotExecuted
}
