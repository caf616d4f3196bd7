package agent

import (
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func (d *draft) progress(in flow.Progress) {
	s := d.activeStepWith(in.Ordinal)
	if s == nil {
		return
	}
	d.addStepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_ToolProgress{ToolProgress: in.Progress}})
}

// called records the outcome of a call, also after a cancel or a pause.
func (d *draft) called(in flow.Called) {
	s := d.runningAttempt(in.Ordinal, in.Attempt)
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
		d.addUsage(&storagev1.Usage{ToolCalls: 1})
	}
	if in.Usage != nil {
		d.addUsage(in.Usage)
	}
	switch {
	case in.Err == nil:
		d.recordOutput(s, in)
	case d.state.GetCancelRequested():
		d.endCancelledCall(s, in)
	case in.Outcome == outcomeUnknown:
		d.settleUnknown(s, in, answers)
	case in.Outcome == outcomeNotExecuted && in.Lost && s.GetAttempt() < d.t.Head.GetLimits().GetMaxAttempts():
		d.callAgain(s, in.Err, outcomeNotExecuted) // it never reached the tool
	case d.mustRefreshTool(s, in):
		d.refreshTool(s, in.Err)
	default:
		d.failAttempt(s, in.Err, in.Outcome)
	}
}

// moved sends a call that was not made to another replica of the MCP pool. The attempt stays the same.
func (d *draft) moved(in flow.Moved) {
	s := d.runningAttempt(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	s.PoolId = in.PoolID
	d.startCall(s)
}

// recordOutput records a step's output. If the next step is known, recordOutput starts it in the same transition.
func (d *draft) recordOutput(s *storagev1.ActiveStep, in flow.Called) {
	d.setStepStatus(s, stepSuccess)
	d.addStepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepOutput{StepOutput: in.Output}})
	switch {
	case d.state.GetCancelRequested():
		d.endCancelled(d.state.GetCancelReason(), "")
	case in.Next != nil:
		d.removeStep(s)
		d.state.Phase = storagev1.Phase_PHASE_PLAN
		d.planned(*in.Next)
	default:
		d.planNext(s)
	}
}

// endCancelledCall ends a cancelled task whose call has failed or was not sent.
func (d *draft) endCancelledCall(s *storagev1.ActiveStep, in flow.Called) {
	if in.Outcome == outcomeKnown && in.Err.GetReason() != commonv1.ErrorReason_ERROR_REASON_CANCELLED {
		d.recordError(s, in.Err, in.Outcome)
		d.endCancelled(d.state.GetCancelReason(), "")
		return
	}
	d.cancelStep(s, d.state.GetCancelReason(), "", in.Outcome)
	d.endCancelled(d.state.GetCancelReason(), "")
}

// runningAttempt returns the active step if it has this ordinal and is running this attempt; else it refuses the draft and returns nil.
func (d *draft) runningAttempt(ordinal, attempt uint32) *storagev1.ActiveStep {
	s := d.activeStepWith(ordinal)
	if s == nil {
		return nil
	}
	if s.GetAttempt() != attempt || s.GetStatus() != stepRunning {
		d.refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"a result of attempt %d arrived while attempt %d of %s is %s; this is a defect, please report it", attempt, s.GetAttempt(), flow.StepID(s.GetOrdinal()), s.GetStatus()))
		return nil
	}
	return s
}

func (d *draft) recordError(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) {
	d.setStepStatus(s, stepError)
	s.Outcome, s.Error = o, e
	d.addStepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepError{StepError: &storagev1.StepError{Error: e, Outcome: o}}})
}

// failWaitingStep fails a step that waits. The error belongs to no attempt: the newest one, if any, has already ended.
func (d *draft) failWaitingStep(s *storagev1.ActiveStep, e *storagev1.ErrorNote, waitID string) {
	d.recordError(s, e, s.GetOutcome())
	f := d.facts[len(d.facts)-1]
	f.Attempt, f.WaitId = 0, waitID
}

// failAttempt records a failed attempt and decides how the task continues.
func (d *draft) failAttempt(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) {
	d.recordError(s, e, o)
	switch {
	case o == outcomeUnknown || !inputMayHelp(e):
		d.failStep(s)
	case d.t.Head.GetConfirm() == executorv1.Confirm_CONFIRM_ALWAYS || d.t.Head.GetConfirm() == executorv1.Confirm_CONFIRM_UNSPECIFIED:
		d.state.Phase = storagev1.Phase_PHASE_DIAGNOSE
		d.schedule(diagnoseAction(s))
	case s.GetAttempt() < d.t.Head.GetLimits().GetMaxAttempts():
		d.state.Phase = storagev1.Phase_PHASE_DERIVE
		d.schedule(flow.Derive{Ordinal: s.GetOrdinal()})
	default:
		d.failStep(s)
	}
}

// failStep ends a failed step and plans the next one, unless too many steps have failed.
func (d *draft) failStep(s *storagev1.ActiveStep) {
	d.state.ErrorCount++
	if limit := d.t.Head.GetLimits().GetMaxFailedSteps(); d.state.GetErrorCount() >= limit {
		d.failTask(&storagev1.ErrorNote{
			ErrMsg:   plural(limit, "step") + " failed, which is the limit; the last error was: " + s.GetError().GetErrMsg(),
			DataJson: s.GetError().GetDataJson(),
			Reason:   commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
		})
		return
	}
	d.planNext(s)
}

// derived continues with an input made by Derive or Fill.
func (d *draft) derived(in flow.Derived) {
	d.settleReservation(in.Usage)
	s := d.activeStepWith(in.Ordinal)
	if s == nil {
		return
	}
	filled := d.state.GetPhase() == storagev1.Phase_PHASE_FILL
	if in.Err != nil {
		d.failDerivation(s, in.Err)
		return
	}
	if !filled && in.Input == s.GetInputJson() {
		// The same input would fail in the same way.
		d.failStep(s)
		return
	}
	s.Repeated = s.GetRepeated() && in.Input == s.GetInputJson()
	s.InputJson, s.InputSeq, s.Supplied = in.Input, 0, nil
	d.bindTool(s, in.Tool)
	if !filled {
		d.setStepStatus(s, stepInit)
	}
	d.start(s, in.Problem)
}

// failDerivation fails a step because the planner could not make an input.
func (d *draft) failDerivation(s *storagev1.ActiveStep, e *storagev1.ErrorNote) {
	if s.GetStatus() == stepParam {
		d.failWaitingStep(s, e, "")
	}
	d.failStep(s)
}

// notStarted records that a call was never sent, so that the task's next owner sends it.
func (d *draft) notStarted(in flow.NotStarted) {
	s := d.activeStepWith(in.Ordinal)
	if s == nil {
		return
	}
	s.Outcome = outcomeNotExecuted
}

// resumeCall continues the call of an earlier owner. It sends the call if it was never sent, else attaches to it.
func (d *draft) resumeCall() {
	s := d.activeStep()
	if s == nil {
		return
	}
	if s.GetOutcome() == outcomeNotExecuted {
		d.startCall(s)
		return
	}
	if d.state.GetCancelRequested() {
		d.stopAndAttach(s, "the task was cancelled")
		return
	}
	d.schedule(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// startCall sends a call whose intent is durable and that did not run, unless the task was cancelled or its run time is spent. It clears the
// outcome NOT_EXECUTED, because from now on the call may run.
func (d *draft) startCall(s *storagev1.ActiveStep) {
	if d.state.GetCancelRequested() {
		d.endCancelledCall(s, flow.Called{Outcome: unreachedOutcome(s), Err: &storagev1.ErrorNote{Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED}})
		return
	}
	if spent := d.spentRunTime(); spent != "" {
		d.called(flow.Called{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), Outcome: unreachedOutcome(s), Err: &storagev1.ErrorNote{
			ErrMsg: "the task's budget of " + spent + " is spent", Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
		}})
		return
	}
	s.Outcome = commonv1.Outcome_OUTCOME_UNSPECIFIED
	d.unchanged = false
	d.schedule(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// unreachedOutcome returns the outcome of an attempt whose newest call never reached the tool: UNKNOWN if an earlier call of the attempt
// reached it and asked a question, else NOT_EXECUTED.
func unreachedOutcome(s *storagev1.ActiveStep) commonv1.Outcome {
	if len(s.GetAnswers()) > 0 {
		return outcomeUnknown
	}
	return outcomeNotExecuted
}

// inputMayHelp reports whether another input could succeed; none can if the tool could not be reached or is forbidden.
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
