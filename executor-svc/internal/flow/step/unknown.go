package step

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
func (l Lane) settleUnknown(s *storagev1.ActiveStep, in flow.Called, answers []*storagev1.InputAnswer) {
	mayRepeat := s.GetAttempt() < l.Task.Head.GetLimits().GetMaxAttempts()
	if how := refusal(answers); how != "" {
		in.Err, mayRepeat = refusedError(in.Err, how), false
	}
	if isRepeatable(s) {
		if mayRepeat && (in.Lost || serverLostAnswers(in.Err, answers)) {
			l.callAgain(s, in.Err, outcomeUnknown)
			return
		}
		l.failAttempt(s, in.Err, outcomeUnknown)
		return
	}
	switch policy := l.Task.Head.GetOnUnknownOutcome(); {
	case policy == executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY && mayRepeat:
		s.Accepted = nil // the policy allows a second call, but not the same answers
		l.callAgain(s, in.Err, outcomeUnknown)
	case policy == executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_FAIL:
		l.recordError(s, in.Err, outcomeUnknown, executorv1.Recovery_RECOVERY_STOP)
		l.FailTask(&storagev1.ErrorNote{
			ErrMsg: "it is not known whether " + s.GetToolId() + " ran (" + in.Err.GetErrMsg() +
				"); check whether it had its effect, then start a new task for the rest",
			DataJson: s.GetInputJson(),
			Reason:   commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
		})
	default:
		l.askOutcome(s, in.Err)
	}
}

// callAgain repeats a call with the same input, and so with the same idempotency key. It needs no second approval.
func (l Lane) callAgain(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) {
	l.recordError(s, e, o, executorv1.Recovery_RECOVERY_RETRY)
	l.setStepStatus(s, stepInit)
	s.Repeated = s.GetRepeated() || o == outcomeUnknown
	l.call(s, "")
}

// askOutcome asks a person for the outcome of a call. The attempt ends with the question.
func (l Lane) askOutcome(s *storagev1.ActiveStep, e *storagev1.ErrorNote) {
	l.setStepStatus(s, stepWaiting)
	l.Rest()
	s.Error = e
	l.recordUnknown(s)
	w := l.OpenWait(s, waitOutcome, e.GetErrMsg())
	l.addInputFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StepWaitingForStart{
		StepWaitingForStart: &storagev1.StepWaitingForStart{InputJson: s.GetInputJson(), Risk: s.GetRisk(), Deadline: w.GetDeadline(), OutcomeUnknown: e},
	}})
}

// settleOutcome continues as a person decided: it calls again, records an output, or skips the step.
func (l Lane) settleOutcome(o *storagev1.SettleOutcome) {
	s := l.State.GetStep()
	switch a := o.GetAnswer().(type) {
	case *storagev1.SettleOutcome_Retry:
		s.ApprovedHash = flow.InputHash(s.GetInputJson())
		l.call(s, o.GetWaitId())
	case *storagev1.SettleOutcome_OutputJson:
		l.supplyOutput(s, a.OutputJson, o.GetWaitId())
	case *storagev1.SettleOutcome_Skip:
		l.skipStep(s, a.Skip, o.GetWaitId())
	default:
		l.Refuse(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the answer is missing: set retry, output or skip"))
	}
}

// supplyOutput records a person's output as the tool's.
func (l Lane) supplyOutput(s *storagev1.ActiveStep, output, waitID string) {
	l.SetStatus(taskRunning)
	l.setStepStatus(s, stepSuccess)
	s.Outcome = outcomeKnown
	l.forgetUnknown(s)
	l.addStepFact(s, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StepOutput{StepOutput: output}})
	l.lastFact().Attempt = 0
	l.State.Step = nil
	l.rules.StepEnded(l, s, nil)
}

// skipStep continues without the step. Its outcome stays unknown, so a later call with the same input needs a person's approval.
func (l Lane) skipStep(s *storagev1.ActiveStep, reason, waitID string) {
	l.SetStatus(taskRunning)
	e := &storagev1.ErrorNote{
		ErrMsg: cmp.Or(reason, "skipped by a person") + "; it is not known whether the tool ran: " + s.GetError().GetErrMsg(),
		Reason: commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
	}
	l.FailWaitingStep(s, e, waitID, executorv1.Recovery_RECOVERY_CONTINUE)
	l.State.Step = nil
	l.rules.StepEnded(l, s, nil)
}

// recordUnknown records a call with an unknown outcome, so that the same call needs a person's approval.
func (d *Draft) recordUnknown(s *storagev1.ActiveStep) {
	if hash := flow.ToolInputHash(s.GetToolId(), s.GetInputJson()); !d.mayHaveRun(s) {
		d.Checkpoint.UnknownCalls = append(d.Checkpoint.UnknownCalls, hash)
	}
}

// forgetUnknown undoes recordUnknown, because a person knows the outcome.
func (d *Draft) forgetUnknown(s *storagev1.ActiveStep) {
	hash := flow.ToolInputHash(s.GetToolId(), s.GetInputJson())
	d.Checkpoint.UnknownCalls = slices.DeleteFunc(d.Checkpoint.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) })
}
