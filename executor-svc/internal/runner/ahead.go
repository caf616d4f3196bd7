package runner

import (
	"encoding/json"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/jsonref"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
)

// goalName is what references call the goal.
const goalName = "goal"

// follow returns what gives the step after the running one, once that has succeeded with an output; nil where the planner
// has to be asked. What is known ahead is kept in memory alone: after a crash the planner is asked again, which changes
// nothing in the world.
func (s *Session) follow(log *history.Log) func(output string) *flow.Planned {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ahead) == 0 {
		return func(string) *flow.Planned { return nil }
	}
	p, tools := s.ahead[0], s.tools
	current, earlier := outputs(log, p)
	return func(output string) *flow.Planned {
		step, ok := tools.ahead(p, func(name string) (string, bool) {
			switch name {
			case goalName:
				return quote(s.head.GetGoal()), true
			case current:
				return output, true
			}
			text, ok := earlier[name]
			return text, ok
		})
		if !ok {
			s.setAhead(nil)
			return nil
		}
		if !s.pop() {
			return nil
		}
		return step
	}
}

// outputs returns the name of the running step and what the earlier ones gave, where the step may refer to that.
func outputs(log *history.Log, p *plannerv1.PlannedStep) (current string, earlier map[string]string) {
	if !p.GetUnresolved() {
		return "", nil
	}
	if n := len(log.Entries); n > 0 {
		current = flow.StepID(log.Entries[n-1].Ordinal)
	}
	earlier = map[string]string{}
	for _, e := range log.Entries {
		if e.OutputJSON != "" {
			earlier[flow.StepID(e.Ordinal)] = e.OutputJSON
		}
	}
	return current, earlier
}

// ahead makes a step that was planned ahead callable. Where it cannot be, the planner says why better.
func (t *toolset) ahead(p *plannerv1.PlannedStep, lookup func(string) (string, bool)) (*flow.Planned, bool) {
	if p.GetToolId() == flow.Final {
		return &flow.Planned{}, true
	}
	if t == nil || t.byID[p.GetToolId()] == nil {
		return nil, false
	}
	step := t.planned(p)
	if !p.GetUnresolved() {
		return &flow.Planned{Step: step}, true
	}
	input, err := jsonref.Resolve(step.InputJSON, lookup)
	if err != nil {
		return nil, false
	}
	description, err := jsonref.ResolveText(step.Description, lookup)
	if err != nil {
		return nil, false
	}
	step.InputJSON, step.Description = valid(input), valid(description)
	step.Problem = problem(t.byID[p.GetToolId()], step.InputJSON)
	return &flow.Planned{Step: step}, true
}

// planned is a step that the planner proposed, with what the pool says of its tool.
func (t *toolset) planned(p *plannerv1.PlannedStep) *flow.PlannedStep {
	tool, input := t.byID[p.GetToolId()], valid(p.GetInputJson())
	if input == "" {
		input = "{}"
	}
	step := &flow.PlannedStep{
		ToolID: tool.GetId(), Description: valid(p.GetDescription()), InputJSON: input, Risk: riskNote(p.GetRisk()),
		Effect: tool.GetEffect(), Idempotent: tool.GetIdempotent(), RiskFloor: tool.GetRiskFloor(),
		DefinitionHash: tool.GetDefinitionHash(), ConfigRevision: tool.GetConfigRevision(), PoolID: t.poolIDs[tool.GetMcpId()],
	}
	if !p.GetUnresolved() {
		step.Problem = problem(tool, input)
	}
	return step
}

func (s *Session) setAhead(steps []*plannerv1.PlannedStep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = steps
}

// pop takes the first step that is known ahead; false where they were dropped meanwhile.
func (s *Session) pop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ahead) == 0 {
		return false
	}
	s.ahead = s.ahead[1:]
	return true
}

func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return `""` // strings always encode
	}
	return string(raw)
}
