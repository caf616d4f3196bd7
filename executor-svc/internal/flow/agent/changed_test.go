package agent_test

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	low, medium, high    = commonv1.RiskLevel_RISK_LEVEL_LOW, commonv1.RiskLevel_RISK_LEVEL_MEDIUM, commonv1.RiskLevel_RISK_LEVEL_HIGH
	reads, writes, ruins = commonv1.Effect_EFFECT_READ, commonv1.Effect_EFFECT_WRITE, commonv1.Effect_EFFECT_DESTRUCTIVE
)

// A29: a step that is shown again describes the tool as it is now. The planner's level counts if it is higher than the tool's floor,
// its reason if the effect is unchanged.
func TestRiskOfAChangedTool(t *testing.T) {
	floors := map[commonv1.Effect]commonv1.RiskLevel{reads: low, writes: medium, ruins: high}
	const words = "The planner's words."
	for name, c := range map[string]struct {
		planned       commonv1.RiskLevel
		before, after commonv1.Effect
		level         commonv1.RiskLevel
		says          string
	}{
		"worse":                       {medium, writes, ruins, high, "write may destroy something that does not come back."},
		"harmless":                    {high, ruins, reads, low, "write only reads."},
		"less harmful":                {high, ruins, writes, medium, "write may change something."},
		"the planner saw more":        {high, writes, reads, high, "write only reads."},
		"the planner saw less":        {low, writes, reads, low, "write only reads."},
		"the planner saw less, ruins": {low, writes, ruins, high, "write may destroy something that does not come back."},
		"another configuration alone": {high, writes, writes, high, words},
	} {
		t.Run(name, func(t *testing.T) {
			task := calling()
			step := task.State.Lanes[0].Step
			step.Effect, step.RiskFloor, step.ConfigRevision = c.before, floors[c.before], 1
			step.Risk = &storagev1.RiskNote{Level: max(c.planned, floors[c.before]), Reason: words}
			if c.planned < floors[c.before] {
				step.PlannedRisk = c.planned
			}
			refresh(t, task, &flow.Tool{Effect: c.after, RiskFloor: floors[c.after], ConfigRevision: 2}, c.level, c.says)
		})
	}
}

// A tool that changes twice is described as it is now, and an earlier, higher floor no longer counts.
func TestRiskOfAToolThatChangesTwice(t *testing.T) {
	task := calling()
	step := task.State.Lanes[0].Step
	step.Effect, step.RiskFloor, step.Risk = writes, medium, &storagev1.RiskNote{Level: medium, Reason: "The planner's words."}
	refresh(t, task, &flow.Tool{Effect: ruins, RiskFloor: high, ConfigRevision: 2}, high, "write may destroy something that does not come back.")
	refresh(t, task, &flow.Tool{Effect: reads, RiskFloor: low, ConfigRevision: 3}, low, "write only reads.")
}

func refresh(t *testing.T, task *flow.Task, now *flow.Tool, level commonv1.RiskLevel, says string) {
	t.Helper()
	task.State.Lanes[0].Phase, task.State.Lanes[0].Step.Status = storagev1.Phase_PHASE_REFRESH_TOOL, executorv1.StepStatus_STEP_STATUS_ERROR
	if _, err := agent.New().Apply(task, 0, flow.ToolRefreshed{Ordinal: 1, Tool: now}); err != nil {
		t.Fatal(err)
	}
	risk := task.State.Lanes[0].Step.GetRisk()
	if want := "The configuration of its MCP server has changed since this step was decided on. " + says; risk.GetLevel() != level || risk.GetReason() != want {
		t.Errorf("risk %v, want %s: %q", risk, level, want)
	}
}
