package agent

import (
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// What is said of a step that is shown again, before the planner's words.
const (
	configurationChanged = "The configuration of its MCP server has changed since this step was decided on. "
	definitionChanged    = "The definition of the tool has changed since this step was decided on. "
)

// outdated says whether a call was refused because its tool, or the server of it, is not what the step was decided on with, and may
// be tried once more as it is now. A server that changes all the time uses the step's attempts up.
func (m *move) outdated(s *storagev1.ActiveStep, in flow.Called) bool {
	return in.Outcome == notExecuted && in.Err.GetReason() == commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED &&
		s.GetAttempt() < m.t.Head.GetLimits().GetMaxAttempts()
}

// lookAgain records the refused attempt, and has the tools listed again.
func (m *move) lookAgain(s *storagev1.ActiveStep, e *storagev1.ErrorNote) error {
	told := &storagev1.ErrorNote{
		ErrMsg: s.GetToolId() + " was not called: its definition, or the configuration of its MCP server, has changed since this step was decided on; " +
			"it is looked at again",
		DataJson: e.GetDataJson(), Reason: e.GetReason(),
	}
	if err := m.recordError(s, told, notExecuted); err != nil {
		return err
	}
	m.s.Phase = storagev1.Phase_PHASE_REFRESH_TOOL
	m.run(flow.RefreshTool{Ordinal: s.GetOrdinal()})
	return nil
}

// looked goes on with the tool as it is now: what a person approved was another one, and the policy decides anew (DESIGN 4).
func (m *move) looked(in flow.ToolRefreshed) error {
	s, err := m.current(in.Ordinal)
	if err != nil {
		return err
	}
	if err := m.stepTo(s, stepInit); err != nil {
		return err
	}
	if in.Err != nil {
		return m.unusable(s, in.Err)
	}
	m.adopt(s, in.Tool)
	return m.start(s, in.Problem)
}

// unusable ends an attempt that cannot even begin, as misfit does.
func (m *move) unusable(s *storagev1.ActiveStep, e *storagev1.ErrorNote) error {
	if err := m.attempt(s, ""); err != nil {
		return err
	}
	return m.attemptFailed(s, e, notExecuted)
}

// adopt makes a step one of the tool as it is now. Where nothing has changed, neither has what was approved.
func (m *move) adopt(s *storagev1.ActiveStep, now *flow.Tool) {
	if now == nil {
		return
	}
	why := ""
	switch {
	case s.GetDefinitionHash() != now.DefinitionHash:
		why = definitionChanged
	case s.GetConfigRevision() != now.ConfigRevision:
		why = configurationChanged
	}
	s.PoolId = now.PoolID
	if why == "" {
		return
	}
	s.ApprovedHash = nil
	setRisk(s, riskNow(s, now, why), now.RiskFloor)
	s.Effect, s.Idempotent = now.Effect, now.Idempotent
	s.DefinitionHash, s.ConfigRevision = now.DefinitionHash, now.ConfigRevision
	if s.GetRepeated() && !repeatable(s) && m.t.Head.GetOnUnknownOutcome() != executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY {
		m.remember(s) // it was called again because it was repeatable: as it is now, that takes a person's word
	}
}

// riskNow is what is said of a step with its tool as it is now. Where the effect is another one, the planner's words were about another
// tool; its level counts where it was above the floor, for then the planner saw more than the effect.
func riskNow(s *storagev1.ActiveStep, now *flow.Tool, why string) *storagev1.RiskNote {
	planned := &storagev1.RiskNote{Level: s.GetRisk().GetLevel(), Reason: s.GetRisk().GetReason()}
	if s.GetPlannedRisk() != 0 {
		planned.Level = s.GetPlannedRisk()
	}
	for _, said := range []string{mayRun, definitionChanged, configurationChanged} {
		planned.Reason = strings.TrimPrefix(planned.Reason, said)
	}
	if s.GetEffect() != now.Effect {
		planned.Reason = saying(s.GetToolId(), now.Effect)
		if planned.Level <= floorOf(s.GetRiskFloor()) {
			planned.Level = commonv1.RiskLevel_RISK_LEVEL_LOW // the floor decides
		}
	}
	planned.Reason = why + planned.Reason
	return planned
}

// saying says what a tool may do, as the planner words it.
func saying(toolID string, effect commonv1.Effect) string {
	_, name := flow.ToolName(toolID)
	switch effect {
	case commonv1.Effect_EFFECT_READ:
		return name + " only reads."
	case commonv1.Effect_EFFECT_DESTRUCTIVE:
		return name + " may destroy something that does not come back."
	}
	return name + " may change something."
}

// setRisk gives a step its floor and effective risk (A29), and keeps the planner's word where that is lower: the floor may fall.
func setRisk(s *storagev1.ActiveStep, planned *storagev1.RiskNote, floor commonv1.RiskLevel) {
	s.RiskFloor, s.Risk, s.PlannedRisk = floor, effectiveRisk(planned, floor), 0
	if planned.GetLevel() != s.GetRisk().GetLevel() {
		s.PlannedRisk = planned.GetLevel()
	}
}
