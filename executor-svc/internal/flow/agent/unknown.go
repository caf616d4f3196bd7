package agent

import (
	"bytes"
	"slices"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// outcomeUnknown decides about a call that may have had its effect. Only what is repeatable goes on by itself: it is
// called again where Pawl lost the outcome, and recorded as failed where the server did (A14). Everything else is asked of
// a person, unless the agent's policy says otherwise. Where a person said no to what the call asked for, nothing calls again
// but a person's word.
func (m *move) outcomeUnknown(s *storagev1.ActiveStep, in flow.Called, answers []*storagev1.InputAnswer) error {
	left := s.GetAttempt() < m.t.Head.GetLimits().GetMaxAttempts()
	if said := refusal(answers); said != "" {
		in.Err, left = refused(in.Err, said), false
	}
	if repeatable(s) {
		if left && (in.Lost || lostAnswers(in.Err, answers)) {
			return m.callAgain(s, in.Err, unknown)
		}
		return m.attemptFailed(s, in.Err, unknown)
	}
	switch policy := m.t.Head.GetOnUnknownOutcome(); {
	case policy == executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY && left:
		s.Accepted = nil // that the tool may run twice is nobody's word on what it asks for
		return m.callAgain(s, in.Err, unknown)
	case policy == executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_FAIL:
		if err := m.recordError(s, in.Err, unknown); err != nil {
			return err
		}
		return m.fail(&storagev1.ErrorNote{
			ErrMsg: "it is not known whether " + s.GetToolId() + " ran (" + in.Err.GetErrMsg() +
				"); look at what it changes, then start a new task for what is left to do",
			DataJson: s.GetInputJson(),
			Reason:   commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
		})
	}
	return m.askOutcome(s, in.Err)
}

// callAgain repeats a call with the same input, and so with the same idempotency key. It needs no second approval.
func (m *move) callAgain(s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) error {
	if err := m.recordError(s, e, o); err != nil {
		return err
	}
	if err := m.stepTo(s, stepInit); err != nil {
		return err
	}
	s.Repeated = s.GetRepeated() || o == unknown
	return m.call(s, "")
}

// askOutcome lets a person say what became of the call. The attempt ends with that question (A17).
func (m *move) askOutcome(s *storagev1.ActiveStep, e *storagev1.ErrorNote) error {
	if err := m.stepTo(s, stepWaiting); err != nil {
		return err
	}
	if err := m.executor(waiting); err != nil {
		return err
	}
	s.Error = e
	m.remember(s)
	w := m.open(s, outcome, e.GetErrMsg())
	w.Hash = flow.AskedHash(m.t, s)
	m.inputFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StepWaitingForStart{
		StepWaitingForStart: &storagev1.StepWaitingForStart{InputJson: s.GetInputJson(), Risk: s.GetRisk(), Deadline: w.GetDeadline(), OutcomeUnknown: e},
	}})
	m.stop()
	return nil
}

// settleOutcome goes on with what a person found out.
func (m *move) settleOutcome(o *storagev1.SettleOutcome) error {
	s, err := m.answer(o.GetWaitId(), outcome)
	if err != nil {
		return err
	}
	switch a := o.GetAnswer().(type) {
	case *storagev1.SettleOutcome_Retry:
		s.ApprovedHash = flow.InputHash(s.GetInputJson())
		return m.call(s, o.GetWaitId())
	case *storagev1.SettleOutcome_OutputJson:
		return m.outputSupplied(s, a.OutputJson, o.GetWaitId())
	case *storagev1.SettleOutcome_Skip:
		return m.skipped(s, a.Skip, o.GetWaitId())
	}
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "say what became of the call: retry, output or skip")
}

// outputSupplied takes a person's word for the tool's.
func (m *move) outputSupplied(s *storagev1.ActiveStep, output, waitID string) error {
	if err := m.executor(running); err != nil {
		return err
	}
	if err := m.stepTo(s, stepSuccess); err != nil {
		return err
	}
	s.Outcome = known
	m.settled(s)
	m.stepFact(s, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StepOutput{StepOutput: output}})
	m.facts[len(m.facts)-1].Attempt = 0
	m.planNext(s)
	return nil
}

// skipped goes on without the step. Its outcome stays unknown: the same call is not made again without a person's word.
func (m *move) skipped(s *storagev1.ActiveStep, reason, waitID string) error {
	if err := m.executor(running); err != nil {
		return err
	}
	if reason == "" {
		reason = "skipped by a person"
	}
	e := &storagev1.ErrorNote{
		ErrMsg: reason + "; it is not known whether the tool ran: " + s.GetError().GetErrMsg(),
		Reason: commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
	}
	if err := m.stepEnds(s, e, waitID); err != nil {
		return err
	}
	m.planNext(s)
	return nil
}

// remember keeps planning from going round a call that may have run: whatever becomes of the step, the same call is not
// made by another one without a person's word.
func (m *move) remember(s *storagev1.ActiveStep) {
	if hash := flow.ToolInputHash(s.GetToolId(), s.GetInputJson()); !m.mayHaveRun(s) {
		m.s.UnknownCalls = append(m.s.UnknownCalls, hash)
	}
}

// settled: a person knows what became of the call.
func (m *move) settled(s *storagev1.ActiveStep) {
	hash := flow.ToolInputHash(s.GetToolId(), s.GetInputJson())
	m.s.UnknownCalls = slices.DeleteFunc(m.s.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) })
}
