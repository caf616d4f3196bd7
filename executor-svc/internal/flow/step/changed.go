package step

import (
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Prefixes of the reason of the risk when a person is asked about a step again.
const (
	configurationChanged = "The configuration of its MCP server has changed since this step was decided on. "
	definitionChanged    = "The definition of the tool has changed since this step was decided on. "
)

// mustRefreshTool reports whether a call was refused with DEFINITION_CHANGED and the step has attempts left. docs/ARCHITECTURE.md lists the
// other refusals.
func (l Lane) mustRefreshTool(s *storagev1.ActiveStep, in flow.Called) bool {
	return in.Outcome == outcomeNotExecuted && in.Err.GetReason() == commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED &&
		s.GetAttempt() < l.Task.Head.GetLimits().GetMaxAttempts()
}

// refreshTool records the refused attempt and lists the tools again.
func (l Lane) refreshTool(s *storagev1.ActiveStep, e *storagev1.ErrorNote) {
	refused := &storagev1.ErrorNote{
		ErrMsg: s.GetToolId() + " was not called: its definition, or the configuration of its MCP server, has changed since this step was decided on; " +
			"it is listed again",
		DataJson: e.GetDataJson(), Reason: e.GetReason(),
	}
	l.recordError(s, refused, outcomeNotExecuted, executorv1.Recovery_RECOVERY_RETRY)
	l.Ask(storagev1.Phase_PHASE_REFRESH_TOOL, flow.RefreshTool{Ordinal: s.GetOrdinal()})
}

// toolRefreshed starts the step again with the tool's current description.
func (l Lane) toolRefreshed(in flow.ToolRefreshed) {
	s := l.activeStepWith(in.Ordinal)
	if s == nil {
		return
	}
	l.setStepStatus(s, stepInit)
	if in.Err != nil {
		l.failWithoutCall(s, in.Err)
		return
	}
	l.bindTool(s, in.Tool)
	l.start(s, in.Problem)
}

// failWithoutCall records an attempt that fails before the tool is called.
func (l Lane) failWithoutCall(s *storagev1.ActiveStep, e *storagev1.ErrorNote) {
	l.beginAttempt(s, "")
	l.failAttempt(s, e, outcomeNotExecuted)
}

// bindTool binds a step to the tool's current description. If the definition hash or the configuration revision differs, the approval is
// dropped and the policy decides again; otherwise the approval stays valid.
func (d *Draft) bindTool(s *storagev1.ActiveStep, current *flow.Tool) {
	if current == nil {
		return
	}
	why := ""
	switch {
	case s.GetDefinitionHash() != current.DefinitionHash:
		why = definitionChanged
	case s.GetConfigRevision() != current.ConfigRevision:
		why = configurationChanged
	}
	s.PoolId = current.PoolID
	if why == "" {
		return
	}
	s.ApprovedHash = nil
	setRisk(s, currentRisk(s, current, why), current.RiskFloor)
	s.Effect, s.Idempotent = current.Effect, current.Idempotent
	s.DefinitionHash, s.ConfigRevision = current.DefinitionHash, current.ConfigRevision
	if s.GetRepeated() && !isRepeatable(s) && d.Task.Head.GetOnUnknownOutcome() != executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY {
		d.recordUnknown(s) // the tool is no longer repeatable, so another repetition needs a person's approval
	}
}

// currentRisk returns the planner's risk for a step, adapted to the tool's current description. If the effect has changed, the planner's
// reason no longer applies, and the planner's level counts only if it was above the old floor.
func currentRisk(s *storagev1.ActiveStep, current *flow.Tool, why string) *storagev1.RiskNote {
	planned := &storagev1.RiskNote{Level: s.GetRisk().GetLevel(), Reason: s.GetRisk().GetReason()}
	if s.GetPlannedRisk() != 0 {
		planned.Level = s.GetPlannedRisk()
	}
	for _, prefix := range []string{mayHaveRunNote, definitionChanged, configurationChanged} {
		planned.Reason = strings.TrimPrefix(planned.Reason, prefix)
	}
	if s.GetEffect() != current.Effect {
		planned.Reason = effectReason(s.GetToolId(), current.Effect)
		if planned.Level <= FloorOf(s.GetRiskFloor()) {
			planned.Level = commonv1.RiskLevel_RISK_LEVEL_LOW // the floor decides
		}
	}
	planned.Reason = why + planned.Reason
	return planned
}

// effectReason describes a tool's effect, in the wording of the planner's reasons.
func effectReason(toolID string, effect commonv1.Effect) string {
	_, name := flow.ToolName(toolID)
	switch effect {
	case commonv1.Effect_EFFECT_READ:
		return name + " only reads."
	case commonv1.Effect_EFFECT_DESTRUCTIVE:
		return name + " may destroy something that does not come back."
	}
	return name + " may change something."
}

// setRisk sets a step's floor and effective risk. It keeps the planner's level if the floor is higher, because the floor may fall.
func setRisk(s *storagev1.ActiveStep, planned *storagev1.RiskNote, floor commonv1.RiskLevel) {
	s.RiskFloor, s.Risk, s.PlannedRisk = floor, effectiveRisk(planned, floor), 0
	if planned.GetLevel() != s.GetRisk().GetLevel() {
		s.PlannedRisk = planned.GetLevel()
	}
}
