package playbook

import (
	"fmt"
	"strconv"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/jsonref"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/risk"
)

// How much one answer plans, the next step included.
const (
	mostSteps = 64
	mostBytes = 256 << 10
)

// steps returns the next step, and the steps behind it that are what would be planned then, as long as every step succeeds. The
// list ends behind a step of which something is expected, since that is checked here, on what came out; and before a step
// about which something is not certain yet: its tool is not there, a value is missing, or its risk depends on a value.
func (r *run) steps() ([]*plannerv1.PlannedStep, error) {
	if err := r.whole(); err != nil {
		return nil, err
	}
	p, err := r.next()
	if err != nil {
		return nil, err
	}
	if p == nil {
		return []*plannerv1.PlannedStep{r.final()}, nil
	}
	first, err := r.planned(p)
	if err != nil {
		return nil, err
	}
	steps, size := []*plannerv1.PlannedStep{first}, sizeOf(first)
	for i := len(r.tc.GetHistory()) + 1; len(steps) < mostSteps && len(r.Steps[i-1].Expect) == 0; i++ {
		if i == len(r.Steps) {
			return append(steps, r.final()), nil
		}
		step := r.further(i)
		if step == nil {
			break
		}
		if size += sizeOf(step); size > mostBytes {
			break
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func (r *run) final() *plannerv1.PlannedStep {
	return &plannerv1.PlannedStep{ToolId: plan.Final, Description: r.finalDescription()}
}

// planned judges a step that was resolved.
func (r *run) planned(p *planned) (*plannerv1.PlannedStep, error) {
	step := &plannerv1.PlannedStep{ToolId: p.Tool, Description: p.description, InputJson: p.input, Missing: r.tool(p.Tool).Missing(p.template)}
	var err error
	step.Risk, err = r.risk(p.Step, p.input)
	return step, err
}

// risk assesses a step; the input is read only where it matters.
func (r *run) risk(s *Step, input string) (*commonv1.Risk, error) {
	t, in := r.tool(s.Tool), s.template
	if risk.ByInput(t) {
		var err error
		if in, err = strictjson.ParseObject(input); err != nil {
			return nil, fmt.Errorf("playbook: %w", err)
		}
	}
	return r.raised(risk.Assess(r.lang, t, in), s.Risk), nil
}

// further plans a step behind the next one; nil where that is not certain yet. What is wrong with it is told when it is due.
func (r *run) further(i int) *plannerv1.PlannedStep {
	s := &r.Steps[i]
	t := r.tool(s.Tool)
	if t == nil {
		return nil
	}
	input, openInput, err := r.partial(s.Input, i)
	if err != nil || openInput && risk.ByInput(t) {
		return nil
	}
	description, openDescription, err := r.partial(s.Description, i)
	if err != nil {
		return nil
	}
	if !openInput && !openDescription {
		p, err := r.plan(i)
		if err != nil {
			return nil
		}
		step, err := r.planned(p)
		if err != nil {
			return nil
		}
		return step
	}
	text := strictjson.Content(description)
	if !openDescription {
		if text, err = r.description(i); err != nil {
			return nil
		}
		text = jsonref.Escape(text)
	}
	x, err := r.risk(s, input)
	if err != nil {
		return nil
	}
	return &plannerv1.PlannedStep{ToolId: s.Tool, Description: text, InputJson: input, Missing: t.Missing(s.template), Risk: x, Unresolved: true}
}

// partial resolves what is there already: the goal and the outputs in the history. Outputs of the steps between that and step i
// are referred to by the ids that the task will give them.
func (r *run) partial(template string, i int) (string, bool, error) {
	if !strings.Contains(template, "${") {
		return template, false, nil
	}
	done := len(r.tc.GetHistory())
	first, known := plan.NextOrdinal(r.tc.GetHistory())
	return jsonref.Partial(template, r.lookup(done), func(name string) (string, bool) {
		place, ok := r.byID[name]
		if !ok || place < done || place >= i {
			return "", false
		}
		if !known {
			return "", true // no name: jsonref.ErrNotYet
		}
		return plan.StepPrefix + strconv.FormatUint(first+uint64(place-done), 10), true
	})
}

func sizeOf(s *plannerv1.PlannedStep) int {
	return len(s.GetToolId()) + len(s.GetDescription()) + len(s.GetInputJson()) + len(s.GetRisk().GetReason())
}
