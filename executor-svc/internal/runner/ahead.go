package runner

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/jsonref"
	"pawl.dev/services/strictjson"

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
	var outputs map[string]history.Entry
	var current string
	if p.GetUnresolved() {
		outputs, current = referencedOutputs(p, running, log)
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

// referencedOutputs returns the steps with outputs that a planned step refers to, by the names that its references use, and the name of the
// running step, which is the one before it. In a branch, these names count the steps of the branch, because the planner does not know which
// ordinals they get.
func referencedOutputs(p *plannerv1.PlannedStep, running *storagev1.ActiveStep, log *history.Log) (outputs map[string]history.Entry, current string) {
	step := func(n int) (*history.Entry, string) { return log.EndedStep("", uint32(n)), flow.StepID(uint32(n)) }
	current = flow.StepID(running.GetOrdinal())
	if branch := running.GetSubtaskId(); branch != "" {
		ended := log.EndedSteps(branch)
		step = func(n int) (*history.Entry, string) {
			if n > len(ended) {
				return nil, ""
			}
			return ended[n-1], flow.BranchStepID(n)
		}
		current = flow.BranchStepID(len(ended) + 1)
	}
	outputs = map[string]history.Entry{}
	// A template that cannot be read has no references here, and stepAhead refuses it.
	inInput, _ := jsonref.Refs(p.GetInputJson())
	inDescription, _ := jsonref.Refs(strictjson.Quote(p.GetDescription()))
	for _, ref := range append(inInput, inDescription...) {
		n, err := strconv.Atoi(ref.Name[strings.LastIndexByte(ref.Name, '-')+1:])
		if err != nil || n < 1 {
			continue
		}
		if e, name := step(n); e != nil && name == ref.Name && e.OutputSize > 0 {
			outputs[name] = *e
		}
	}
	return outputs, current
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
	step.InputJSON, step.Problem = toolcall.CheckInput(t.find(p.GetToolId()), input)
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
	tool := t.find(p.GetToolId())
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
