package runner

import (
	"context"
	"encoding/json"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/jsonref"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// goalName is the name of the goal in references.
const goalName = "goal"

// stepAfter returns a function that makes the next step from the running step's output, or nil if no step is planned ahead. The function
// returns nil if the planner has to be asked. Steps planned ahead are kept only in memory: after a crash, the planner is asked again.
func (s *Session) stepAfter(ctx context.Context, lane uint32, running *storagev1.ActiveStep, log *history.Log) func(output string) *flow.Planned {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ahead[lane]) == 0 {
		return nil
	}
	p, tools := s.ahead[lane][0], s.tools
	outputs, current := map[string]history.Entry{}, ""
	if p.GetUnresolved() {
		current = referencedOutputs(running, log, outputs)
	}
	return func(output string) *flow.Planned {
		reader := &outputReader{s: s}
		defer reader.done()
		next := tools.stepAhead(p, func(name string) (string, bool) {
			switch name {
			case goalName:
				return quote(s.head.GetGoal()), true
			case current:
				return output, true
			}
			e, ok := outputs[name]
			if !ok {
				return "", false
			}
			text, err := reader.output(ctx, &e)
			return text, err == nil
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		switch rest := s.ahead[lane]; {
		case len(rest) == 0: // all were dropped meanwhile
			return nil
		case next == nil:
			delete(s.ahead, lane)
		default:
			s.ahead[lane] = rest[1:]
		}
		return next
	}
}

// referencedOutputs adds the steps with outputs of the running step's line to outputs, by the names that references use, and returns the running step's name.
// In a branch, these names count the steps of the branch, because the planner does not know which ordinals they get.
func referencedOutputs(running *storagev1.ActiveStep, log *history.Log, outputs map[string]history.Entry) (current string) {
	name := func(ordinal uint32, _ int) string { return flow.StepID(ordinal) }
	if running.GetSubtaskId() != "" {
		name = func(_ uint32, n int) string { return flow.BranchStepID(n) }
	}
	n := 1
	for _, e := range log.Entries {
		if _, ended := results[e.Status]; !ended || e.SubtaskID != running.GetSubtaskId() {
			continue
		}
		if e.OutputSize > 0 {
			outputs[name(e.Ordinal, n)] = *e
		}
		n++
	}
	return name(running.GetOrdinal(), n)
}

// stepAhead resolves the references of a step that was planned ahead. It returns nil if that fails; the planner is asked then.
func (t *toolset) stepAhead(p *plannerv1.PlannedStep, lookup func(string) (string, bool)) *flow.Planned {
	if p.GetToolId() == flow.Final {
		return &flow.Planned{}
	}
	if t == nil {
		return nil
	}
	step := t.propose(p)
	if step == nil {
		return nil
	}
	if !p.GetUnresolved() {
		return &flow.Planned{Step: step}
	}
	input, err := jsonref.Resolve(step.InputJSON, lookup)
	if err != nil {
		return nil
	}
	description, err := jsonref.ResolveText(step.Description, lookup)
	if err != nil {
		return nil
	}
	step.Description = validUTF8(description)
	step.InputJSON, step.Problem = toolcall.CheckInput(t.byID[p.GetToolId()], input)
	return &flow.Planned{Step: step}
}

// propose combines the planner's step with the MCP pool's description of its tool: effect, risk floor, definition hash, configuration
// revision and replica. It returns nil if the tool does not exist.
func (t *toolset) propose(p *plannerv1.PlannedStep) *flow.PlannedStep {
	step := plannedStep(p)
	if p.GetFromHistory() && p.GetToolId() == flow.ReadOutput {
		step.Tool = flow.Tool{Effect: commonv1.Effect_EFFECT_READ, Idempotent: true, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_LOW}
		return step
	}
	tool := t.byID[p.GetToolId()]
	if tool == nil {
		return nil
	}
	step.Tool, step.Retry = t.describe(tool), p.GetRetry()
	if !p.GetUnresolved() {
		step.InputJSON, step.Problem = toolcall.CheckInput(tool, step.InputJSON)
	}
	return step
}

func plannedStep(p *plannerv1.PlannedStep) *flow.PlannedStep {
	return &flow.PlannedStep{
		ToolID: validUTF8(p.GetToolId()), Description: validUTF8(p.GetDescription()), InputJSON: validUTF8(p.GetInputJson()), Risk: riskNote(p.GetRisk()),
	}
}

// setAhead replaces the steps that are planned ahead in a lane.
func (s *Session) setAhead(lane uint32, steps []*plannerv1.PlannedStep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(steps) == 0 {
		delete(s.ahead, lane)
	} else {
		s.ahead[lane] = steps
	}
}

func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return `""` // strings always encode
	}
	return string(raw)
}
