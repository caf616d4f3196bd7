package step

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// NewStep returns a step that was decided on, without a number.
func NewStep(p *flow.PlannedStep) *storagev1.ActiveStep {
	s := &storagev1.ActiveStep{
		ToolId: p.ToolID, Description: p.Description, Status: stepInit, InputJson: p.InputJSON, Effect: p.Effect, Idempotent: p.Idempotent,
		DefinitionHash: p.DefinitionHash, ConfigRevision: p.ConfigRevision, PoolId: p.PoolID,
	}
	setRisk(s, p.Risk, p.RiskFloor)
	return s
}

// Begin numbers a step, makes it the lane's step, and starts it. problem says how its input violates the tool's schema; empty if it fits.
func (l Lane) Begin(s *storagev1.ActiveStep, problem string) {
	l.Checkpoint.StepCount++
	s.Ordinal, s.SubtaskId = l.Checkpoint.GetStepCount(), l.State.GetSubtaskId()
	l.State.Step = s
	l.addStepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepInit{StepInit: s.GetDescription()}})
	l.start(s, problem)
}

// start calls a step's tool, or asks a person first. problem says how the input violates the tool's schema; if it is not empty, the attempt
// fails without a call.
func (l Lane) start(s *storagev1.ActiveStep, problem string) {
	switch {
	case problem != "":
		l.failInvalidInput(s, problem)
	case l.mustAsk(s):
		l.askApproval(s)
	default:
		l.call(s, "")
	}
}

// failInvalidInput records an attempt whose input violates the tool's schema.
func (l Lane) failInvalidInput(s *storagev1.ActiveStep, problem string) {
	l.failWithoutCall(s, &storagev1.ErrorNote{
		ErrMsg:   problem,
		DataJson: s.GetInputJson(),
		Reason:   commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
	})
}

// beginAttempt moves a step to RUNNING and records its input in the fact that starts the next attempt.
func (l Lane) beginAttempt(s *storagev1.ActiveStep, waitID string) {
	l.SetStatus(taskRunning)
	l.setStepStatus(s, stepRunning)
	s.Attempt++
	forgetCall(s)
	s.Error = nil
	l.addInputFact(s, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StepInput{StepInput: s.GetInputJson()}})
}

// call records the intent and schedules the call, which starts once the intent is durable. If a pause was requested, the call waits until
// the task is unpaused; if a budget is spent, the task ends.
func (l Lane) call(s *storagev1.ActiveStep, waitID string) {
	if l.Checkpoint.GetPauseRequested() {
		l.callLater(s, waitID)
		return
	}
	if spent := l.spentCallBudget(s); spent != "" {
		l.cancelStep(s, "the budget is spent", waitID, s.GetOutcome())
		l.failBudget(spent)
		return
	}
	l.beginAttempt(s, waitID)
	l.setPhase(storagev1.Phase_PHASE_CALL)
	if !flow.IsReadOutput(s) {
		l.reserve(math.MaxUint32) // without a share the call runs too, but its server may ask no model
	}
	l.Schedule(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// callLater postpones the call until the task is unpaused, and records the approval, if there was one.
func (l Lane) callLater(s *storagev1.ActiveStep, waitID string) {
	before := l.Checkpoint.GetStatus()
	l.SetStatus(taskRunning)
	l.setPhase(storagev1.Phase_PHASE_START)
	if waitID != "" {
		l.addStatusFact(before, waitID, Approved)
		l.lastFact().GetStatusChanged().SuppliedHash = flow.InputHash(s.GetInputJson())
	}
}

// Approved is the reason of the status change that records an approval while the task is paused.
const Approved = "approved"

// mustAsk implements the confirmation policy. An input that a person has approved needs no second approval. Otherwise a call that is
// recorded in UnknownCalls needs approval under every policy.
func (d *Draft) mustAsk(s *storagev1.ActiveStep) bool {
	if len(s.GetApprovedHash()) > 0 && bytes.Equal(s.GetApprovedHash(), flow.InputHash(s.GetInputJson())) {
		return false
	}
	if d.mayHaveRun(s) {
		return true
	}
	if flow.IsReadOutput(s) || d.hasGrant(s) {
		return false
	}
	switch d.Task.Head.GetConfirm() {
	case executorv1.Confirm_CONFIRM_NEVER:
		return false
	case executorv1.Confirm_CONFIRM_BY_RISK:
		return s.GetRisk().GetLevel() > commonv1.RiskLevel_RISK_LEVEL_LOW
	}
	return true
}

// mayHaveRun reports whether the same call (tool and input) is recorded with an unknown outcome.
func (d *Draft) mayHaveRun(s *storagev1.ActiveStep) bool {
	if len(d.Checkpoint.GetUnknownCalls()) == 0 {
		return false
	}
	hash := flow.ToolInputHash(s.GetToolId(), s.GetInputJson())
	return slices.ContainsFunc(d.Checkpoint.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) })
}

func (d *Draft) hasGrant(s *storagev1.ActiveStep) bool {
	return slices.ContainsFunc(d.Checkpoint.GetGrants(), func(g *storagev1.Grant) bool {
		return g.GetToolId() == s.GetToolId() && g.GetDefinitionHash() == s.GetDefinitionHash() &&
			g.GetConfigRevision() == s.GetConfigRevision() && s.GetRisk().GetLevel() <= g.GetMaxRisk()
	})
}

// effectiveRisk returns the higher of the planner's risk and the tool's floor: a model can raise a risk, but not lower it.
func effectiveRisk(planner *storagev1.RiskNote, floor commonv1.RiskLevel) *storagev1.RiskNote {
	floor = FloorOf(floor)
	if planner.GetLevel() >= floor {
		return planner
	}
	return &storagev1.RiskNote{Level: floor, Reason: planner.GetReason()}
}

// FloorOf returns a tool's risk floor, or MEDIUM if the pool names none.
func FloorOf(floor commonv1.RiskLevel) commonv1.RiskLevel {
	return cmp.Or(floor, commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
}
