package agent

import (
	"bytes"
	"cmp"
	"slices"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// settleUnknown decides how to continue after a call with an unknown outcome. A repeatable call is repeated while attempts are left, if Pawl
// lost the outcome or the server lost a person's answers; else the attempt fails. For any other call the task's policy decides. The default is
// to ask a person, also when RETRY has no attempts left. A call is not repeated if a person refused one of its questions.
func (d *draft) settleUnknown(s *storagev1.ActiveStep, in flow.Called, answers []*storagev1.InputAnswer) {
	mayRepeat := s.GetAttempt() < d.t.Head.GetLimits().GetMaxAttempts()
	if how := refusal(answers); how != "" {
		in.Err, mayRepeat = refusedError(in.Err, how), false
	}
	if isRepeatable(s) {
		if mayRepeat && (in.Lost || serverLostAnswers(in.Err, answers)) {
			d.callAgain(s, in.Err, outcomeUnknown)
			return
		}
		d.failAttempt(s, in.Err, outcomeUnknown)
		return
	}
	switch policy := d.t.Head.GetOnUnknownOutcome(); {
	case policy == executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY && mayRepeat:
		s.Accepted = nil // the policy allows a second call, but not the same answers
		d.callAgain(s, in.Err, outcomeUnknown)
	case policy == executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_FAIL:
		d.recordError(s, in.Err, outcomeUnknown)
		d.failTask(&storagev1.ErrorNote{
			ErrMsg: "it is not known whether " + s.GetToolId() + " ran (" + in.Err.GetErrMsg() +
				"); check whether it had its effect, then start a new task for the rest",
			DataJson: s.GetInputJson(),
			Reason:   commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
		})
	default:
		d.askOutcome(s, in.Err)
	}
}

// callAgain repeats a call with the same input, and so with the same idempotency key. It needs no second approval.
func (d *draft) callAgain(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) {
	d.recordError(s, e, o)
	d.setStepStatus(s, stepInit)
	s.Repeated = s.GetRepeated() || o == outcomeUnknown
	d.call(s, "")
}

// askOutcome asks a person for the outcome of a call. The attempt ends with the question.
func (d *draft) askOutcome(s *storagev1.ActiveStep, e *storagev1.ErrorNote) {
	d.setStepStatus(s, stepWaiting)
	d.setStatus(taskWaiting)
	s.Error = e
	d.recordUnknown(s)
	w := d.openWait(s, waitOutcome, e.GetErrMsg())
	d.addInputFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StepWaitingForStart{
		StepWaitingForStart: &storagev1.StepWaitingForStart{InputJson: s.GetInputJson(), Risk: s.GetRisk(), Deadline: w.GetDeadline(), OutcomeUnknown: e},
	}})
	d.waitForPerson()
}

// settleOutcome continues as a person decided: it calls again, records an output, or skips the step.
func (d *draft) settleOutcome(o *storagev1.SettleOutcome) {
	s := d.closeWait(o.GetWaitId(), waitOutcome)
	if s == nil {
		return
	}
	switch a := o.GetAnswer().(type) {
	case *storagev1.SettleOutcome_Retry:
		s.ApprovedHash = flow.InputHash(s.GetInputJson())
		d.call(s, o.GetWaitId())
	case *storagev1.SettleOutcome_OutputJson:
		d.supplyOutput(s, a.OutputJson, o.GetWaitId())
	case *storagev1.SettleOutcome_Skip:
		d.skipStep(s, a.Skip, o.GetWaitId())
	default:
		d.refuse(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the answer is missing: set retry, output or skip"))
	}
}

// supplyOutput records a person's output as the tool's.
func (d *draft) supplyOutput(s *storagev1.ActiveStep, output, waitID string) {
	d.setStatus(taskRunning)
	d.setStepStatus(s, stepSuccess)
	s.Outcome = outcomeKnown
	d.forgetUnknown(s)
	d.addStepFact(s, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StepOutput{StepOutput: output}})
	d.facts[len(d.facts)-1].Attempt = 0
	d.planNext(s)
}

// skipStep continues without the step. Its outcome stays unknown, so a later call with the same input needs a person's approval.
func (d *draft) skipStep(s *storagev1.ActiveStep, reason, waitID string) {
	d.setStatus(taskRunning)
	e := &storagev1.ErrorNote{
		ErrMsg: cmp.Or(reason, "skipped by a person") + "; it is not known whether the tool ran: " + s.GetError().GetErrMsg(),
		Reason: commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
	}
	d.failWaitingStep(s, e, waitID)
	d.planNext(s)
}

// recordUnknown records a call with an unknown outcome, so that the same call needs a person's approval.
func (d *draft) recordUnknown(s *storagev1.ActiveStep) {
	if hash := flow.ToolInputHash(s.GetToolId(), s.GetInputJson()); !d.mayHaveRun(s) {
		d.state.UnknownCalls = append(d.state.UnknownCalls, hash)
	}
}

// forgetUnknown undoes recordUnknown, because a person knows the outcome.
func (d *draft) forgetUnknown(s *storagev1.ActiveStep) {
	hash := flow.ToolInputHash(s.GetToolId(), s.GetInputJson())
	d.state.UnknownCalls = slices.DeleteFunc(d.state.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) })
}
