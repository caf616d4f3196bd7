package playbook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/model"
	"pawl.dev/services/strictjson"
)

// Name is how tasks name the model.
const Name = "playbook"

// kept is how many parsed playbooks are kept: a task asks once per step.
const kept = 64

// Model is the model `playbook`.
type Model struct {
	fallback model.Model // answers what a playbook says nothing about: errors, risks, what a person supplied

	tools *catalog.Cache

	mu     sync.Mutex
	parsed map[string]*Playbook // by text
	order  []string             // the oldest first
}

var _ model.Computing = (*Model)(nil)

// New makes the model. The fallback answers what a playbook says nothing about.
func New(fallback model.Model) *Model {
	return &Model{fallback: fallback, tools: catalog.NewCache(), parsed: map[string]*Playbook{}}
}

// Info implements model.Model.
func (*Model) Info() model.Info {
	return model.Info{Name: Name, Deterministic: true, Description: "Steps that a person wrote, given with the task as a YAML playbook; no language model."}
}

// Generate implements model.Model.
func (m *Model) Generate(ctx context.Context, req *model.Request, emit func(string) error) (model.Usage, error) {
	switch req.Purpose {
	case model.ToolRisk, model.IsParamError, model.DescribeError, model.MissingParams, model.FillParams:
		return m.fallback.Generate(ctx, req, emit)
	}
	r, err := m.run(req.Facts.Context)
	if err != nil {
		return model.Usage{}, err
	}
	if req.Purpose == model.Answer {
		text, err := r.answer(req.Facts.CutShort)
		if err != nil {
			return model.Usage{}, err
		}
		return model.Usage{}, stream(text, emit)
	}
	answer, err := r.structured(req)
	if err != nil {
		return model.Usage{}, err
	}
	text, err := strictjson.Marshal(answer)
	if err != nil {
		return model.Usage{}, fmt.Errorf("playbook: write the answer for %s: %w", req.Purpose, err)
	}
	return model.Usage{}, emit(text)
}

// FlowName implements model.Computing.
func (m *Model) FlowName(f *model.Facts) (string, error) {
	r, err := m.run(f.Context)
	if err != nil {
		return "", err
	}
	return r.flowName(), nil
}

// FlowRisk implements model.Computing.
func (m *Model) FlowRisk(f *model.Facts) (*commonv1.Risk, error) {
	r, err := m.run(f.Context)
	if err != nil {
		return nil, err
	}
	return r.flowRisk(), nil
}

// PlanSteps implements model.Computing.
func (m *Model) PlanSteps(f *model.Facts) ([]*plannerv1.PlannedStep, error) {
	r, err := m.run(f.Context)
	if err != nil {
		return nil, err
	}
	return r.steps()
}

func (m *Model) run(tc *plannerv1.TaskContext) (*run, error) {
	p, err := m.Parse(tc.GetPlaybook())
	if err != nil {
		return nil, precondition(err)
	}
	return &run{
		Playbook: p, tc: tc, lang: lang.Of(tc.GetLanguage(), tc.GetGoal()+p.Name),
		cache: m.tools, tools: map[string]*catalog.Tool{},
	}, nil
}

// Parse parses a playbook unless it was parsed before: one that was checked is not parsed again for its task's first step.
func (m *Model) Parse(text string) (*Playbook, error) {
	m.mu.Lock()
	p := m.parsed[text]
	m.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := Parse(text)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parsed[text] == nil {
		m.parsed[text] = p
		m.order = append(m.order, text)
	}
	if len(m.order) > kept {
		delete(m.parsed, m.order[0])
		m.order = append([]string(nil), m.order[1:]...)
	}
	return p, nil
}

// object is a JSON object of an answer.
type object map[string]any

func (r *run) structured(req *model.Request) (object, error) {
	switch req.Purpose {
	case model.NextStep:
		p, err := r.next()
		if err != nil {
			return nil, err
		}
		if p == nil {
			return object{"tool_id": model.Final, "description": r.finalDescription()}, nil
		}
		return object{"tool_id": p.Tool, "description": p.description}, nil
	case model.InputParams:
		return r.input(req.Facts.ToolID, req.Facts.InputJSON != "")
	}
	return nil, fmt.Errorf("playbook: the purpose %q is not known", req.Purpose)
}

// input gives the step's input as the playbook has it, also after an error: what a person wrote is not mended behind their
// back. again says that an input of the step has failed: the step is in the history already.
func (r *run) input(toolID string, again bool) (object, error) {
	i := len(r.tc.GetHistory())
	if again && i > 0 && i <= len(r.Steps) && r.Steps[i-1].Tool == toolID && r.tc.GetHistory()[i-1].GetResult() != plannerv1.StepResult_STEP_RESULT_SUCCESS {
		i--
	}
	if i >= len(r.Steps) || r.Steps[i].Tool != toolID {
		return nil, failed("the playbook does not call %s at this point (step %d)", toolID, i+1)
	}
	p, err := r.plan(i)
	if err != nil {
		return nil, err
	}
	return object{"input": json.RawMessage(p.input)}, nil
}

// pieceBytes is about how long a piece of a text is. All of it is there at once: shorter ones would cost everybody on the way as
// much each, and be shown no sooner.
const pieceBytes = 16 << 10

// stream emits a text in pieces of whole lines.
func stream(text string, emit func(string) error) error {
	for text != "" {
		end := len(text)
		if end > pieceBytes {
			end = pieceBytes + strings.IndexByte(text[pieceBytes:], '\n') + 1
			if end == pieceBytes {
				end = len(text) // its last line
			}
		}
		if err := emit(text[:end]); err != nil {
			return err
		}
		text = text[end:]
	}
	return nil
}
