package step

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

// CancelledByUser is the default reason of a rejection or cancellation.
const CancelledByUser = "Cancelled by user"

// mayHaveRunNote precedes the reason of the risk if the call may have had its effect already.
const mayHaveRunNote = "The same call was made before, and it is not known whether it ran. "

// askApproval opens a wait for a person's approval of exactly the current input.
func (l Lane) askApproval(s *storagev1.ActiveStep) {
	l.setStepStatus(s, stepWaiting)
	l.Rest()
	if s.GetRepeated() || l.mayHaveRun(s) {
		s.Risk = &storagev1.RiskNote{
			Level:  s.GetRisk().GetLevel(),
			Reason: mayHaveRunNote + strings.TrimPrefix(s.GetRisk().GetReason(), mayHaveRunNote),
		}
	}
	w := l.OpenWait(s, waitApproval, s.GetRisk().GetReason())
	l.addInputFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StepWaitingForStart{
		StepWaitingForStart: &storagev1.StepWaitingForStart{InputJson: s.GetInputJson(), Risk: s.GetRisk(), Deadline: w.GetDeadline()},
	}})
}

// askPermission asks a person to make a refused call possible and to approve it again.
func (l Lane) askPermission(s *storagev1.ActiveStep, e *storagev1.ErrorNote) {
	l.setStepStatus(s, stepInit)
	s.ApprovedHash = nil
	setRisk(s, &storagev1.RiskNote{Level: s.GetRisk().GetLevel(), Reason: "The call was refused: " + e.GetErrMsg()}, s.GetRiskFloor())
	l.askApproval(s)
}

// diagnosed asks a person for parameters if the error is about parameters and an attempt is left; else the step fails.
func (l Lane) diagnosed(in flow.Diagnosed) {
	s := l.activeStepWith(in.Ordinal)
	if s == nil {
		return
	}
	if !in.IsParamError || s.GetAttempt() >= l.Task.Head.GetLimits().GetMaxAttempts() {
		l.rules.StepFailed(l, s)
		return
	}
	l.setStepStatus(s, stepParam)
	l.Rest()
	w := l.OpenWait(s, waitParams, in.Message)
	w.ParamsSchemaJson = in.SchemaJSON
	l.addStepFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StepWaitingForParam{
		StepWaitingForParam: &storagev1.StepWaitingForParam{Message: in.Message, ParamsSchemaJson: in.SchemaJSON, Deadline: w.GetDeadline()},
	}})
}

// OpenWait opens a wait of the lane, about a step unless s is nil.
func (l Lane) OpenWait(s *storagev1.ActiveStep, kind executorv1.WaitKind, message string) *storagev1.Wait {
	w := l.openWait(s, kind, message)
	w.Lane = l.State.GetId()
	return w
}

// openWait opens a wait about a step, or about the whole task if s is nil.
func (d *Draft) openWait(s *storagev1.ActiveStep, kind executorv1.WaitKind, message string) *storagev1.Wait {
	d.Checkpoint.WaitCount++
	w := &storagev1.Wait{
		Id: flow.WaitID(d.Checkpoint.GetWaitCount()), Kind: kind, Ordinal: s.GetOrdinal(), Message: message,
		CreateTime: d.Task.Now.UnixNano(),
	}
	if s != nil {
		w.Hash = flow.WaitHash(d.Task, s)
	}
	if timeout := d.Task.Head.GetWaitTimeout(); timeout > 0 && kind != waitPause {
		if deadline := w.CreateTime + timeout; deadline > w.CreateTime { // else it overflows
			w.Deadline = deadline
		}
	}
	d.Checkpoint.Waits = append(d.Checkpoint.Waits, w)
	d.stopDue = true
	return w
}

// applyCommand applies a command from the task's inbox.
func (d *Draft) applyCommand(c *storagev1.Command) {
	switch k := c.GetKind().(type) {
	case *storagev1.Command_Cancel:
		d.cancel(k.Cancel)
		return
	case *storagev1.Command_Pause:
		d.requestPause(k.Pause)
		return
	case *storagev1.Command_Unpause:
		d.unpause(k.Unpause)
		return
	case nil:
		d.Refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the command is of a kind that is not known"))
		return
	}
	id := cmp.Or(c.GetApprove().GetWaitId(), c.GetReject().GetWaitId(), c.GetParams().GetWaitId(), c.GetOutcome().GetWaitId(), c.GetInput().GetWaitId())
	l, w, ok := d.closeWait(id, waitKindsFor(c)...)
	if !ok {
		return
	}
	switch k := c.GetKind().(type) {
	case *storagev1.Command_Approve:
		l.approve(w, k.Approve)
	case *storagev1.Command_Reject:
		d.rules.Rejected(l, cmp.Or(k.Reject.GetReason(), CancelledByUser), w.GetId())
	case *storagev1.Command_Params:
		l.supplyParams(k.Params)
	case *storagev1.Command_Outcome:
		l.settleOutcome(k.Outcome)
	case *storagev1.Command_Input:
		l.answerElicitation(w, k.Input)
	}
}

// closeWait closes the wait that a command answers, and returns its lane. If the wait is not open or of another kind, closeWait refuses the
// command and returns false.
func (d *Draft) closeWait(id string, kinds ...executorv1.WaitKind) (Lane, *storagev1.Wait, bool) {
	i := slices.IndexFunc(d.Checkpoint.GetWaits(), func(w *storagev1.Wait) bool { return w.GetId() == id })
	if i < 0 {
		d.Refuse(notOpenError(id))
		return Lane{}, nil, false
	}
	w := d.Checkpoint.GetWaits()[i]
	if !slices.Contains(kinds, w.GetKind()) {
		d.Refuse(wrongAnswerError(w))
		return Lane{}, nil, false
	}
	l, ok := d.Lane(w.GetLane())
	if ok && w.GetKind() != waitPlan && l.activeStepWith(w.GetOrdinal()) == nil {
		return Lane{}, nil, false
	}
	d.deleteWaits(func(other *storagev1.Wait) bool { return other == w })
	return l, w, ok
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
		return []executorv1.WaitKind{waitApproval, waitPlan}
	case *storagev1.Command_Reject:
		return []executorv1.WaitKind{waitApproval, waitParams, waitOutcome, waitPlan}
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
		waitInput: "input (accept, decline or cancel)", waitPlan: "approve or reject",
	}
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"%s needs another kind of answer: %s", w.GetId(), want[w.GetKind()])
}

// approve calls the tool with exactly the input that the person saw, or as the person edited it. It may also approve a plan.
func (l Lane) approve(w *storagev1.Wait, a *storagev1.Approve) {
	if w.GetKind() == waitPlan {
		l.rules.PlanApproved(l, a)
		return
	}
	s := l.State.GetStep()
	if in := a.GetInputJson(); in != "" && in != s.GetInputJson() {
		s.InputJson, s.InputSeq, s.Repeated = in, 0, false
	}
	s.ApprovedHash = flow.InputHash(s.GetInputJson())
	if a.GetGrant() != commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
		l.Checkpoint.Grants = append(l.Checkpoint.Grants, &storagev1.Grant{
			ToolId: s.GetToolId(), DefinitionHash: s.GetDefinitionHash(), ConfigRevision: s.GetConfigRevision(), MaxRisk: a.GetGrant(),
		})
	}
	l.call(s, a.GetWaitId())
	if a.GetGrant() != commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
		l.approveGranted()
	}
}

// approveGranted approves the steps of other lanes that wait and that a new grant covers. A step that was called before still waits, because its
// wait asks about that call.
func (d *Draft) approveGranted() {
	for _, w := range d.Checkpoint.GetWaits() { // closeWait replaces the slice
		s := flow.LaneOf(d.Checkpoint, w.GetLane()).GetStep()
		if s == nil || w.GetKind() != waitApproval || s.GetAttempt() > 0 || d.mayHaveRun(s) || !d.hasGrant(s) {
			continue
		}
		if l, _, ok := d.closeWait(w.GetId(), waitApproval); ok {
			s.ApprovedHash = flow.InputHash(s.GetInputJson())
			l.call(s, w.GetId())
		}
	}
}

// supplyParams lets the planner complete the input with the values that a person supplied.
func (l Lane) supplyParams(p *storagev1.SupplyParams) {
	s, before := l.State.GetStep(), l.Checkpoint.GetStatus()
	l.SetStatus(taskRunning)
	s.Supplied = p.GetSupplied()
	l.Ask(storagev1.Phase_PHASE_FILL, flow.Fill{Ordinal: s.GetOrdinal()})
	l.addStepFact(s, &storagev1.Fact{WaitId: p.GetWaitId(), Kind: &storagev1.Fact_StatusChanged{
		StatusChanged: &storagev1.StatusChanged{From: before, SuppliedHash: flow.SuppliedHash(p.GetSupplied())},
	}})
}

// CancelStep cancels the lane's step, which does not run.
func (l Lane) CancelStep(reason, waitID string) {
	s := l.State.GetStep()
	l.cancelStep(s, reason, waitID, s.GetOutcome())
	l.State.Step = nil
}

// cancelStep cancels a step. o is the outcome of its newest call.
func (l Lane) cancelStep(s *storagev1.ActiveStep, reason, waitID string, o commonv1.Outcome) {
	wasRunning := s.GetStatus() == stepRunning || l.hasOpenElicitation(s)
	l.setStepStatus(s, stepCancelled)
	if o == outcomeUnknown && !isRepeatable(s) {
		l.recordUnknown(s)
	}
	l.addStepFact(s, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StepCancel{
		StepCancel: &storagev1.StepCancel{Reason: reason, Outcome: o},
	}})
	if !wasRunning {
		// The fact belongs to no attempt: the newest attempt has already ended.
		l.lastFact().Attempt = 0
	}
}

// Plural returns a number with a noun, in the plural unless the number is 1.
func Plural(n uint32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
