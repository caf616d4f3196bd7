package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// mayRun is said of a call that may have had its effect already, before the planner's words.
const mayRun = "The same call was made before, and it is not known whether it ran. "

// ask waits for a person's approval of exactly the current input (A8).
func (m *move) ask(s *storagev1.ActiveStep) error {
	if err := m.stepTo(s, stepWaiting); err != nil {
		return err
	}
	if err := m.executor(waiting); err != nil {
		return err
	}
	if s.GetRepeated() || m.mayHaveRun(s) {
		s.Risk = &storagev1.RiskNote{
			Level:  s.GetRisk().GetLevel(),
			Reason: mayRun + strings.TrimPrefix(s.GetRisk().GetReason(), mayRun),
		}
	}
	w := m.open(s, approval, s.GetRisk().GetReason())
	w.Hash = flow.AskedHash(m.t, s)
	m.inputFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StepWaitingForStart{
		StepWaitingForStart: &storagev1.StepWaitingForStart{InputJson: s.GetInputJson(), Risk: s.GetRisk(), Deadline: w.GetDeadline()},
	}})
	m.stop()
	return nil
}

// judged asks a person for parameters where the error is about them, else gives the step up (A15, A16).
func (m *move) judged(in flow.Diagnosed) error {
	m.settleReserve(in.Usage)
	s, err := m.current(in.Ordinal)
	if err != nil {
		return err
	}
	if !in.IsParamError || s.GetAttempt() >= m.t.Head.GetLimits().GetMaxAttempts() {
		return m.stepFailed(s)
	}
	if err := m.stepTo(s, stepParam); err != nil {
		return err
	}
	if err := m.executor(waiting); err != nil {
		return err
	}
	w := m.open(s, params, in.Message)
	w.ParamsSchemaJson = in.SchemaJSON
	w.Hash = flow.AskedHash(m.t, s)
	m.stepFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StepWaitingForParam{
		StepWaitingForParam: &storagev1.StepWaitingForParam{Message: in.Message, ParamsSchemaJson: in.SchemaJSON, Deadline: w.GetDeadline()},
	}})
	m.stop()
	return nil
}

func (m *move) open(s *storagev1.ActiveStep, kind executorv1.WaitKind, message string) *storagev1.Wait {
	m.s.WaitCount++
	w := &storagev1.Wait{
		Id: flow.WaitID(m.s.GetWaitCount()), Kind: kind, Ordinal: s.GetOrdinal(), Message: message,
		CreateTime: m.t.Now.UnixNano(),
	}
	if timeout := m.t.Head.GetWaitTimeout(); timeout > 0 && kind != pause {
		if d := w.CreateTime + timeout; d > w.CreateTime { // else it is beyond what can be counted
			w.Deadline = d
		}
	}
	m.s.Waits = append(m.s.Waits, w)
	return w
}

// stop says that nothing goes on until a person answers (A26).
func (m *move) stop() {
	m.s.Phase = storagev1.Phase_PHASE_WAIT
	ids := make([]string, 0, len(m.s.GetWaits()))
	for _, w := range m.s.GetWaits() {
		ids = append(ids, w.GetId())
	}
	m.fact(&storagev1.Fact{Kind: &storagev1.Fact_FlowStop{FlowStop: &storagev1.FlowStop{WaitIds: ids}}})
}

// command does what someone asked (A9, A10, cancel).
func (m *move) command(c *storagev1.Command) error {
	switch k := c.GetKind().(type) {
	case *storagev1.Command_Cancel:
		return m.cancel(k.Cancel.GetReason())
	case *storagev1.Command_Approve:
		return m.approve(k.Approve)
	case *storagev1.Command_Reject:
		return m.reject(k.Reject)
	case *storagev1.Command_Params:
		return m.supplied(k.Params)
	case *storagev1.Command_Outcome:
		return m.settleOutcome(k.Outcome)
	case *storagev1.Command_Input:
		return m.supplyInput(k.Input)
	case *storagev1.Command_Pause:
		return m.pause(k.Pause)
	case *storagev1.Command_Unpause:
		return m.unpause(k.Unpause)
	}
	return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "unknown command %T", c.GetKind())
}

// answer finds the wait that a command answers, and closes it.
func (m *move) answer(id string, kinds ...executorv1.WaitKind) (*storagev1.ActiveStep, error) {
	for i, w := range m.s.GetWaits() {
		if w.GetId() != id {
			continue
		}
		if !slices.Contains(kinds, w.GetKind()) {
			return nil, wrongAnswer(w)
		}
		s, err := m.current(w.GetOrdinal())
		if err != nil {
			return nil, err
		}
		m.s.Waits = append(m.s.Waits[:i:i], m.s.Waits[i+1:]...)
		return s, nil
	}
	return nil, notOpen(id)
}

// Fits returns an error where an answer is one for another kind of question: it can be refused before anything is done.
func Fits(w *storagev1.Wait, c *storagev1.Command) error {
	if !slices.Contains(answers(c), w.GetKind()) {
		return wrongAnswer(w)
	}
	return nil
}

// answers are the kinds of questions that a command answers.
func answers(c *storagev1.Command) []executorv1.WaitKind {
	switch c.GetKind().(type) {
	case *storagev1.Command_Approve:
		return []executorv1.WaitKind{approval}
	case *storagev1.Command_Reject:
		return []executorv1.WaitKind{approval, params, outcome}
	case *storagev1.Command_Params:
		return []executorv1.WaitKind{params}
	case *storagev1.Command_Outcome:
		return []executorv1.WaitKind{outcome}
	case *storagev1.Command_Input:
		return []executorv1.WaitKind{input}
	case *storagev1.Command_Unpause:
		return []executorv1.WaitKind{pause}
	}
	return nil
}

func notOpen(id string) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN,
		"%s is not open: it was answered, or never asked; look at the task for the waits that are", id)
}

func wrongAnswer(w *storagev1.Wait) error {
	want := map[executorv1.WaitKind]string{
		approval: "approve or reject", params: "params, or reject", outcome: "outcome (retry, output or skip), or reject", pause: "unpause",
		input: "input (accept, decline or cancel)",
	}
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"%s asks for something else; answer it with %s", w.GetId(), want[w.GetKind()])
}

// approve runs exactly the input that was shown, or the edited one; it is never derived anew (A9).
func (m *move) approve(a *storagev1.Approve) error {
	s, err := m.answer(a.GetWaitId(), approval)
	if err != nil {
		return err
	}
	if in := a.GetInputJson(); in != "" && in != s.GetInputJson() {
		s.InputJson, s.InputSeq, s.Repeated = in, 0, false
	}
	s.ApprovedHash = flow.InputHash(s.GetInputJson())
	if a.GetGrant() != commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
		m.s.Grants = append(m.s.Grants, &storagev1.Grant{
			ToolId: s.GetToolId(), DefinitionHash: s.GetDefinitionHash(), ConfigRevision: s.GetConfigRevision(), MaxRisk: a.GetGrant(),
		})
	}
	return m.call(s, a.GetWaitId())
}

// reject cancels step and task (A9).
func (m *move) reject(r *storagev1.Reject) error {
	s, err := m.answer(r.GetWaitId(), approval, params, outcome)
	if err != nil {
		return err
	}
	reason := r.GetReason()
	if reason == "" {
		reason = "Cancelled by user"
	}
	if err := m.cancelStep(s, reason, r.GetWaitId(), s.GetOutcome()); err != nil {
		return err
	}
	return m.cancelled(reason, r.GetWaitId())
}

// supplied fills in what a person supplied (A10).
func (m *move) supplied(p *storagev1.SupplyParams) error {
	s, err := m.answer(p.GetWaitId(), params)
	if err != nil {
		return err
	}
	if err := m.executor(running); err != nil {
		return err
	}
	s.Supplied = p.GetSupplied()
	m.s.Phase = storagev1.Phase_PHASE_FILL
	m.stepFact(s, &storagev1.Fact{WaitId: p.GetWaitId(), Kind: &storagev1.Fact_StatusChanged{
		StatusChanged: &storagev1.StatusChanged{From: waiting, SuppliedHash: flow.SuppliedHash(p.GetSupplied())},
	}})
	m.run(flow.Fill{Ordinal: s.GetOrdinal()})
	return nil
}

// cancel ends the task at once, or as soon as the running call has come back.
func (m *move) cancel(reason string) error {
	if reason == "" {
		reason = "Cancelled by user"
	}
	if m.s.GetPhase() == storagev1.Phase_PHASE_CALL {
		if m.s.GetCancelRequested() {
			m.unchanged = true
			return nil
		}
		m.s.CancelRequested, m.s.CancelReason = true, reason
		m.run(flow.StopCall{Reason: "the task was cancelled"})
		return nil
	}
	if len(m.s.GetActiveSteps()) > 0 {
		s := m.s.GetActiveSteps()[0]
		m.withdraw(s, "the task was cancelled")
		if err := m.cancelStep(s, reason, "", s.GetOutcome()); err != nil {
			return err
		}
	}
	m.run(flow.Abandon{})
	return m.cancelled(reason, "")
}

func (m *move) cancelStep(s *storagev1.ActiveStep, reason, waitID string, o commonv1.Outcome) error {
	wasRunning := s.GetStatus() == stepRunning || m.asking(s)
	if err := m.stepTo(s, stepCancelled); err != nil {
		return err
	}
	m.stepFact(s, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StepCancel{
		StepCancel: &storagev1.StepCancel{Reason: reason, Outcome: o},
	}})
	if !wasRunning {
		// It ends the step, and no attempt: the newest one has ended already (A17).
		m.facts[len(m.facts)-1].Attempt = 0
	}
	return nil
}

func (m *move) cancelled(reason, waitID string) error {
	return m.end(cancelled, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_FlowCancel{FlowCancel: reason}})
}

// judge asks the planner about an error; that an input did not fit its schema needs no judgement.
func judge(s *storagev1.ActiveStep) flow.Effect {
	return flow.Diagnose{
		Ordinal: s.GetOrdinal(),
		Known:   s.GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
	}
}

func nanos(n int64) time.Duration { return time.Duration(n) }

func plural(n uint32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
