package agent

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// begun records the tools and the task's name and risk, and continues with the first plan.
func (d *draft) begun(in flow.Begun) {
	d.setStatus(taskRunning)
	d.state.Name, d.state.Risk = in.Name, in.Risk
	d.addFact(&storagev1.Fact{Kind: &storagev1.Fact_ToolsLoaded{ToolsLoaded: in.Tools}})
	d.state.FlowStartSeq = d.state.GetLastSeq() + uint64(len(d.facts)) + 1
	d.addFact(&storagev1.Fact{Kind: &storagev1.Fact_FlowStart{FlowStart: &storagev1.FlowStart{Name: in.Name, Risk: in.Risk}}})
	d.planned(in.Plan)
}

// planned starts the step that the planner proposed, or the answer.
func (d *draft) planned(in flow.Planned) {
	if in.Answering {
		d.openAnswer()
	}
	if in.Memory != nil {
		d.state.Memory = in.Memory
	}
	if in.Answering && in.Answer == nil {
		d.state.Phase = storagev1.Phase_PHASE_PLAN // if the process crashes in the middle of the text, the planner is asked again
		return
	}
	d.settleReservation(in.Usage)
	switch {
	case in.Err != nil:
		d.failTask(in.Err)
		return
	case in.Answer != nil:
		answer := *in.Answer
		answer.Usage = nil // settled above
		d.answered(answer)
		return
	case in.Step == nil:
		d.beginAnswer(in.CutShort)
		return
	case d.state.GetStepCount() >= d.t.Head.GetLimits().GetMaxSteps():
		d.beginAnswer(fmt.Sprintf("The limit of %d steps was reached.", d.t.Head.GetLimits().GetMaxSteps()))
		return
	}
	d.state.StepCount++
	p := in.Step
	if p.Retry && d.state.GetErrorCount() > 0 {
		d.state.ErrorCount-- // the repeated step does not count as failed
	}
	s := &storagev1.ActiveStep{
		Ordinal: d.state.GetStepCount(), ToolId: p.ToolID, Description: p.Description, Status: stepInit,
		InputJson: p.InputJSON, Effect: p.Effect, Idempotent: p.Idempotent,
		DefinitionHash: p.DefinitionHash, ConfigRevision: p.ConfigRevision, PoolId: p.PoolID,
	}
	setRisk(s, p.Risk, p.RiskFloor)
	d.state.ActiveSteps = append(d.state.ActiveSteps, s)
	d.addStepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepInit{StepInit: p.Description}})
	d.start(s, p.Problem)
}

// start calls a step's tool, or asks a person first. problem says how the input violates the tool's schema; if it is not empty, the attempt
// fails without a call.
func (d *draft) start(s *storagev1.ActiveStep, problem string) {
	switch {
	case problem != "":
		d.failInvalidInput(s, problem)
	case d.mustAsk(s):
		d.askApproval(s)
	default:
		d.call(s, "")
	}
}

// failInvalidInput records an attempt whose input violates the tool's schema.
func (d *draft) failInvalidInput(s *storagev1.ActiveStep, problem string) {
	d.failWithoutCall(s, &storagev1.ErrorNote{
		ErrMsg:   problem,
		DataJson: s.GetInputJson(),
		Reason:   commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
	})
}

// beginAttempt moves a step to RUNNING and records its input in the fact that starts the next attempt.
func (d *draft) beginAttempt(s *storagev1.ActiveStep, waitID string) {
	d.setStatus(taskRunning)
	d.setStepStatus(s, stepRunning)
	s.Attempt++
	forgetCall(s)
	s.Error = nil
	d.addInputFact(s, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StepInput{StepInput: s.GetInputJson()}})
}

// call records the intent and schedules the call, which starts once the intent is durable. If a pause was requested, the call waits until
// the task is unpaused; if a budget is spent, the task ends.
func (d *draft) call(s *storagev1.ActiveStep, waitID string) {
	if d.state.GetPauseRequested() {
		d.callLater(s, waitID)
		return
	}
	if spent := d.spentCallBudget(s); spent != "" {
		d.cancelStep(s, "the budget is spent", waitID, s.GetOutcome())
		d.failBudget(spent)
		return
	}
	d.beginAttempt(s, waitID)
	d.state.Phase = storagev1.Phase_PHASE_CALL
	d.schedule(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// callLater postpones the call until the task is unpaused, and records the approval, if there was one.
func (d *draft) callLater(s *storagev1.ActiveStep, waitID string) {
	before := d.state.GetStatus()
	d.setStatus(taskRunning)
	d.state.Phase = storagev1.Phase_PHASE_START
	if waitID != "" {
		d.addStatusFact(before, waitID, Approved)
		d.facts[len(d.facts)-1].GetStatusChanged().SuppliedHash = flow.InputHash(s.GetInputJson())
	}
}

// Approved is the reason of the status change that records an approval while the task is paused.
const Approved = "approved"

// mustAsk implements the confirmation policy. An input that a person has approved needs no second approval. Otherwise a call that is
// recorded in UnknownCalls needs approval under every policy.
func (d *draft) mustAsk(s *storagev1.ActiveStep) bool {
	if len(s.GetApprovedHash()) > 0 && bytes.Equal(s.GetApprovedHash(), flow.InputHash(s.GetInputJson())) {
		return false
	}
	if d.mayHaveRun(s) {
		return true
	}
	if flow.IsReadOutput(s) || d.hasGrant(s) {
		return false
	}
	switch d.t.Head.GetConfirm() {
	case executorv1.Confirm_CONFIRM_NEVER:
		return false
	case executorv1.Confirm_CONFIRM_BY_RISK:
		return s.GetRisk().GetLevel() > commonv1.RiskLevel_RISK_LEVEL_LOW
	}
	return true
}

// mayHaveRun reports whether the same call (tool and input) is recorded with an unknown outcome.
func (d *draft) mayHaveRun(s *storagev1.ActiveStep) bool {
	if len(d.state.GetUnknownCalls()) == 0 {
		return false
	}
	hash := flow.ToolInputHash(s.GetToolId(), s.GetInputJson())
	return slices.ContainsFunc(d.state.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) })
}

func (d *draft) hasGrant(s *storagev1.ActiveStep) bool {
	return slices.ContainsFunc(d.state.GetGrants(), func(g *storagev1.Grant) bool {
		return g.GetToolId() == s.GetToolId() && g.GetDefinitionHash() == s.GetDefinitionHash() &&
			g.GetConfigRevision() == s.GetConfigRevision() && s.GetRisk().GetLevel() <= g.GetMaxRisk()
	})
}

// effectiveRisk returns the higher of the planner's risk and the tool's floor: a model can raise a risk, but not lower it.
func effectiveRisk(planner *storagev1.RiskNote, floor commonv1.RiskLevel) *storagev1.RiskNote {
	floor = floorOf(floor)
	if planner.GetLevel() >= floor {
		return planner
	}
	return &storagev1.RiskNote{Level: floor, Reason: planner.GetReason()}
}

// floorOf returns a tool's risk floor, or MEDIUM if the pool names none.
func floorOf(floor commonv1.RiskLevel) commonv1.RiskLevel {
	return cmp.Or(floor, commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
}

// planNext removes a step that has ended, and asks the planner for the next.
func (d *draft) planNext(s *storagev1.ActiveStep) {
	d.removeStep(s)
	d.state.Phase = storagev1.Phase_PHASE_PLAN
	d.schedule(flow.Plan{})
}
