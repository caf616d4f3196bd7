package agent

import (
	"bytes"
	"fmt"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// begun starts the flow: the tools are there, it has a name and a risk (A3).
func (m *move) begun(in flow.Begun) error {
	if err := m.executor(running); err != nil {
		return err
	}
	m.s.Name, m.s.Risk = in.Name, in.Risk
	m.fact(&storagev1.Fact{Kind: &storagev1.Fact_ToolsLoaded{ToolsLoaded: in.Tools}})
	m.s.FlowStartSeq = m.s.GetLastSeq() + uint64(len(m.facts)) + 1
	m.fact(&storagev1.Fact{Kind: &storagev1.Fact_FlowStart{FlowStart: &storagev1.FlowStart{Name: in.Name, Risk: in.Risk}}})
	return m.planned(in.Plan)
}

// planned goes on with the step that the planner proposed (A21).
func (m *move) planned(in flow.Planned) error {
	m.settleReserve(in.Usage)
	switch {
	case in.Err != nil:
		return m.fail(in.Err)
	case in.Step == nil:
		m.beginAnswer(in.CutShort)
		return nil
	case m.s.GetStepCount() >= m.t.Head.GetLimits().GetMaxSteps():
		m.beginAnswer(fmt.Sprintf("The limit of %d steps was reached.", m.t.Head.GetLimits().GetMaxSteps()))
		return nil
	}
	m.s.StepCount++
	p := in.Step
	s := &storagev1.ActiveStep{
		Ordinal: m.s.GetStepCount(), ToolId: p.ToolID, Description: p.Description, Status: stepInit,
		InputJson: p.InputJSON, Effect: p.Effect, Idempotent: p.Idempotent,
		DefinitionHash: p.DefinitionHash, ConfigRevision: p.ConfigRevision, PoolId: p.PoolID,
	}
	setRisk(s, p.Risk, p.RiskFloor)
	m.s.ActiveSteps = append(m.s.ActiveSteps, s)
	m.stepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StepInit{StepInit: p.Description}})
	return m.start(s, p.Problem)
}

// start runs a step whose input is there, or asks a person first (A7, A8). An input that does not fit the tool's schema
// is a failed attempt without a call: nobody is asked to approve what cannot run.
func (m *move) start(s *storagev1.ActiveStep, problem string) error {
	switch {
	case problem != "":
		return m.misfit(s, problem)
	case m.mustAsk(s):
		return m.ask(s)
	}
	return m.call(s, "")
}

// misfit records an attempt whose input the schema refuses.
func (m *move) misfit(s *storagev1.ActiveStep, problem string) error {
	if err := m.attempt(s, ""); err != nil {
		return err
	}
	return m.attemptFailed(s, &storagev1.ErrorNote{
		ErrMsg:   problem,
		DataJson: s.GetInputJson(),
		Reason:   commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
	}, notExecuted)
}

// attempt moves a step to RUNNING and records the input of its next attempt (A17).
func (m *move) attempt(s *storagev1.ActiveStep, waitID string) error {
	if err := m.executor(running); err != nil {
		return err
	}
	if err := m.stepTo(s, stepRunning); err != nil {
		return err
	}
	s.Attempt++
	forgetCall(s)
	s.Outcome, s.Error = commonv1.Outcome_OUTCOME_UNSPECIFIED, nil
	m.inputFact(s, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StepInput{StepInput: s.GetInputJson()}})
	return nil
}

// call records the intent and calls the tool once that is durable (A12). A paused task does so when it goes on; one whose
// budget is spent ends.
func (m *move) call(s *storagev1.ActiveStep, waitID string) error {
	if m.s.GetPauseRequested() {
		return m.callLater(s, waitID)
	}
	if spent := m.callSpent(); spent != "" {
		if err := m.cancelStep(s, "the budget is spent", waitID, s.GetOutcome()); err != nil {
			return err
		}
		return m.budgetExceeded(spent)
	}
	if err := m.attempt(s, waitID); err != nil {
		return err
	}
	m.s.Phase = storagev1.Phase_PHASE_CALL
	m.run(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
	return nil
}

// callLater keeps an approved step until the task is unpaused.
func (m *move) callLater(s *storagev1.ActiveStep, waitID string) error {
	before := m.s.GetStatus()
	if err := m.executor(running); err != nil {
		return err
	}
	m.s.Phase = storagev1.Phase_PHASE_START
	if waitID != "" {
		m.statusFact(before, waitID, Approved)
		m.facts[len(m.facts)-1].GetStatusChanged().SuppliedHash = flow.InputHash(s.GetInputJson())
	}
	return nil
}

// Approved is the reason of the status change that closes an approval while the task is paused.
const Approved = "approved"

// mustAsk is the confirmation policy (A29). Exactly what a person approved needs no second approval; a call that may have
// had its effect already needs one whatever the policy.
func (m *move) mustAsk(s *storagev1.ActiveStep) bool {
	if len(s.GetApprovedHash()) > 0 && bytes.Equal(s.GetApprovedHash(), flow.InputHash(s.GetInputJson())) {
		return false
	}
	if m.mayHaveRun(s) {
		return true
	}
	if m.granted(s) {
		return false
	}
	switch m.t.Head.GetConfirm() {
	case executorv1.Confirm_CONFIRM_NEVER:
		return false
	case executorv1.Confirm_CONFIRM_BY_RISK:
		return s.GetRisk().GetLevel() > commonv1.RiskLevel_RISK_LEVEL_LOW
	}
	return true
}

// mayHaveRun says whether a step before this one made the same call with an outcome that is not known.
func (m *move) mayHaveRun(s *storagev1.ActiveStep) bool {
	if len(m.s.GetUnknownCalls()) == 0 {
		return false
	}
	hash := flow.ToolInputHash(s.GetToolId(), s.GetInputJson())
	return slices.ContainsFunc(m.s.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) })
}

func (m *move) granted(s *storagev1.ActiveStep) bool {
	return slices.ContainsFunc(m.s.GetGrants(), func(g *storagev1.Grant) bool {
		return g.GetToolId() == s.GetToolId() && g.GetDefinitionHash() == s.GetDefinitionHash() &&
			g.GetConfigRevision() == s.GetConfigRevision() && s.GetRisk().GetLevel() <= g.GetMaxRisk()
	})
}

// effectiveRisk is the higher of the planner's word and the tool's floor: a model can raise a risk, never lower it.
func effectiveRisk(planner *storagev1.RiskNote, floor commonv1.RiskLevel) *storagev1.RiskNote {
	floor = floorOf(floor)
	if planner.GetLevel() >= floor {
		return planner
	}
	return &storagev1.RiskNote{Level: floor, Reason: planner.GetReason()}
}

// floorOf is a tool's floor; medium where the pool names none.
func floorOf(floor commonv1.RiskLevel) commonv1.RiskLevel {
	if floor == commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
		return commonv1.RiskLevel_RISK_LEVEL_MEDIUM
	}
	return floor
}

// planNext goes on after a step that has ended.
func (m *move) planNext(s *storagev1.ActiveStep) {
	m.finish(s)
	m.s.Phase = storagev1.Phase_PHASE_PLAN
	m.run(flow.Plan{})
}
