package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// cancelledByUser is the default reason of a rejection or cancellation.
const cancelledByUser = "Cancelled by user"

// mayHaveRunNote precedes the reason of the risk if the call may have had its effect already.
const mayHaveRunNote = "The same call was made before, and it is not known whether it ran. "

// askApproval opens a wait for a person's approval of exactly the current input.
func (d *draft) askApproval(s *storagev1.ActiveStep) {
	d.setStepStatus(s, stepWaiting)
	d.setStatus(taskWaiting)
	if s.GetRepeated() || d.mayHaveRun(s) {
		s.Risk = &storagev1.RiskNote{
			Level:  s.GetRisk().GetLevel(),
			Reason: mayHaveRunNote + strings.TrimPrefix(s.GetRisk().GetReason(), mayHaveRunNote),
		}
	}
	w := d.openWait(s, waitApproval, s.GetRisk().GetReason())
	d.addInputFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StepWaitingForStart{
		StepWaitingForStart: &storagev1.StepWaitingForStart{InputJson: s.GetInputJson(), Risk: s.GetRisk(), Deadline: w.GetDeadline()},
	}})
	d.waitForPerson()
}

// diagnosed asks a person for parameters if the error is about parameters and an attempt is left; else the step fails.
func (d *draft) diagnosed(in flow.Diagnosed) {
	d.settleReservation(in.Usage)
	s := d.activeStepWith(in.Ordinal)
	if s == nil {
		return
	}
	if !in.IsParamError || s.GetAttempt() >= d.t.Head.GetLimits().GetMaxAttempts() {
		d.failStep(s)
		return
	}
	d.setStepStatus(s, stepParam)
	d.setStatus(taskWaiting)
	w := d.openWait(s, waitParams, in.Message)
	w.ParamsSchemaJson = in.SchemaJSON
	d.addStepFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StepWaitingForParam{
		StepWaitingForParam: &storagev1.StepWaitingForParam{Message: in.Message, ParamsSchemaJson: in.SchemaJSON, Deadline: w.GetDeadline()},
	}})
	d.waitForPerson()
}

// openWait opens a wait about a step, or about the whole task if s is nil.
func (d *draft) openWait(s *storagev1.ActiveStep, kind executorv1.WaitKind, message string) *storagev1.Wait {
	d.state.WaitCount++
	w := &storagev1.Wait{
		Id: flow.WaitID(d.state.GetWaitCount()), Kind: kind, Ordinal: s.GetOrdinal(), Message: message,
		CreateTime: d.t.Now.UnixNano(),
	}
	if s != nil {
		w.Hash = flow.WaitHash(d.t, s)
	}
	if timeout := d.t.Head.GetWaitTimeout(); timeout > 0 && kind != waitPause {
		if deadline := w.CreateTime + timeout; deadline > w.CreateTime { // else it overflows
			w.Deadline = deadline
		}
	}
	d.state.Waits = append(d.state.Waits, w)
	return w
}

// waitForPerson records that the flow stops until a person answers its waits.
func (d *draft) waitForPerson() {
	d.state.Phase = storagev1.Phase_PHASE_WAIT
	ids := make([]string, 0, len(d.state.GetWaits()))
	for _, w := range d.state.GetWaits() {
		ids = append(ids, w.GetId())
	}
	d.addFact(&storagev1.Fact{Kind: &storagev1.Fact_FlowStop{FlowStop: &storagev1.FlowStop{WaitIds: ids}}})
}

// applyCommand applies a command from the task's inbox.
func (d *draft) applyCommand(c *storagev1.Command) {
	switch k := c.GetKind().(type) {
	case *storagev1.Command_Cancel:
		d.cancel(k.Cancel.GetReason())
	case *storagev1.Command_Approve:
		d.approve(k.Approve)
	case *storagev1.Command_Reject:
		d.reject(k.Reject)
	case *storagev1.Command_Params:
		d.supplyParams(k.Params)
	case *storagev1.Command_Outcome:
		d.settleOutcome(k.Outcome)
	case *storagev1.Command_Input:
		d.answerElicitation(k.Input)
	case *storagev1.Command_Pause:
		d.pause(k.Pause)
	case *storagev1.Command_Unpause:
		d.unpause(k.Unpause)
	default:
		d.refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "unknown command %T", c.GetKind()))
	}
}

// closeWait closes the wait that a command answers, and returns its step. If the wait is not open or of another kind, closeWait refuses the
// command and returns nil.
func (d *draft) closeWait(id string, kinds ...executorv1.WaitKind) *storagev1.ActiveStep {
	for i, w := range d.state.GetWaits() {
		if w.GetId() != id {
			continue
		}
		if !slices.Contains(kinds, w.GetKind()) {
			d.refuse(wrongAnswerError(w))
			return nil
		}
		s := d.activeStepWith(w.GetOrdinal())
		if s == nil {
			return nil
		}
		d.state.Waits = append(d.state.Waits[:i:i], d.state.Waits[i+1:]...)
		return s
	}
	d.refuse(notOpenError(id))
	return nil
}

// CheckWaitKind returns an error if a command cannot answer a wait of this kind.
func CheckWaitKind(w *storagev1.Wait, c *storagev1.Command) error {
	if !slices.Contains(waitKindsFor(c), w.GetKind()) {
		return wrongAnswerError(w)
	}
	return nil
}

// waitKindsFor returns the kinds of waits that a command answers.
func waitKindsFor(c *storagev1.Command) []executorv1.WaitKind {
	switch c.GetKind().(type) {
	case *storagev1.Command_Approve:
		return []executorv1.WaitKind{waitApproval}
	case *storagev1.Command_Reject:
		return []executorv1.WaitKind{waitApproval, waitParams, waitOutcome}
	case *storagev1.Command_Params:
		return []executorv1.WaitKind{waitParams}
	case *storagev1.Command_Outcome:
		return []executorv1.WaitKind{waitOutcome}
	case *storagev1.Command_Input:
		return []executorv1.WaitKind{waitInput}
	case *storagev1.Command_Unpause:
		return []executorv1.WaitKind{waitPause}
	}
	return nil
}

func notOpenError(id string) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN,
		"%s is not open: it was answered, or does not exist; the task lists its open waits", id)
}

func wrongAnswerError(w *storagev1.Wait) error {
	want := map[executorv1.WaitKind]string{
		waitApproval: "approve or reject", waitParams: "params, or reject", waitOutcome: "outcome (retry, output or skip), or reject", waitPause: "unpause",
		waitInput: "input (accept, decline or cancel)",
	}
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"%s needs another kind of answer: %s", w.GetId(), want[w.GetKind()])
}

// approve calls the tool with exactly the input that the person saw, or as the person edited it.
func (d *draft) approve(a *storagev1.Approve) {
	s := d.closeWait(a.GetWaitId(), waitApproval)
	if s == nil {
		return
	}
	if in := a.GetInputJson(); in != "" && in != s.GetInputJson() {
		s.InputJson, s.InputSeq, s.Repeated = in, 0, false
	}
	s.ApprovedHash = flow.InputHash(s.GetInputJson())
	if a.GetGrant() != commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
		d.state.Grants = append(d.state.Grants, &storagev1.Grant{
			ToolId: s.GetToolId(), DefinitionHash: s.GetDefinitionHash(), ConfigRevision: s.GetConfigRevision(), MaxRisk: a.GetGrant(),
		})
	}
	d.call(s, a.GetWaitId())
}

// reject cancels the step and the task.
func (d *draft) reject(r *storagev1.Reject) {
	s := d.closeWait(r.GetWaitId(), waitApproval, waitParams, waitOutcome)
	if s == nil {
		return
	}
	reason := cmp.Or(r.GetReason(), cancelledByUser)
	d.cancelStep(s, reason, r.GetWaitId(), s.GetOutcome())
	d.endCancelled(reason, r.GetWaitId())
}

// supplyParams lets the planner complete the input with the values that a person supplied.
func (d *draft) supplyParams(p *storagev1.SupplyParams) {
	s := d.closeWait(p.GetWaitId(), waitParams)
	if s == nil {
		return
	}
	d.setStatus(taskRunning)
	s.Supplied = p.GetSupplied()
	d.state.Phase = storagev1.Phase_PHASE_FILL
	d.addStepFact(s, &storagev1.Fact{WaitId: p.GetWaitId(), Kind: &storagev1.Fact_StatusChanged{
		StatusChanged: &storagev1.StatusChanged{From: taskWaiting, SuppliedHash: flow.SuppliedHash(p.GetSupplied())},
	}})
	d.schedule(flow.Fill{Ordinal: s.GetOrdinal()})
}

// cancel ends the task at once, or once the running call has ended.
func (d *draft) cancel(reason string) {
	reason = cmp.Or(reason, cancelledByUser)
	if d.state.GetPhase() == storagev1.Phase_PHASE_CALL {
		if d.state.GetCancelRequested() {
			d.unchanged = true
			return
		}
		d.state.CancelRequested, d.state.CancelReason = true, reason
		d.schedule(flow.StopCall{Reason: "the task was cancelled"})
		return
	}
	if len(d.state.GetActiveSteps()) > 0 {
		s := d.state.GetActiveSteps()[0]
		d.withdraw(s, "the task was cancelled")
		d.cancelStep(s, reason, "", s.GetOutcome())
	}
	d.schedule(flow.Abandon{})
	d.endCancelled(reason, "")
}

func (d *draft) cancelStep(s *storagev1.ActiveStep, reason, waitID string, o commonv1.Outcome) {
	wasRunning := s.GetStatus() == stepRunning || d.hasOpenElicitation(s)
	d.setStepStatus(s, stepCancelled)
	d.addStepFact(s, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StepCancel{
		StepCancel: &storagev1.StepCancel{Reason: reason, Outcome: o},
	}})
	if !wasRunning {
		// The fact belongs to no attempt: the newest attempt has already ended.
		d.facts[len(d.facts)-1].Attempt = 0
	}
}

func (d *draft) endCancelled(reason, waitID string) {
	d.endTask(taskCancelled, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_FlowCancel{FlowCancel: reason}})
}

// diagnoseAction returns the action that asks whether the step's error is about parameters.
func diagnoseAction(s *storagev1.ActiveStep) flow.Action {
	return flow.Diagnose{
		Ordinal: s.GetOrdinal(),
		Known:   s.GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
	}
}

func plural(n uint32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
