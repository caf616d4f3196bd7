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
	"pawl.dev/planner-svc/internal/jsondoc"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/model"
	"pawl.dev/planner-svc/internal/risk"
)

// Name is how tasks name the model.
const Name = "playbook"

// kept is how many parsed playbooks are kept: a task asks once per step.
const kept = 64

// Model is the model `playbook`.
type Model struct {
	fallback model.Model // answers what a playbook says nothing about: errors, risks, what a person supplied

	mu     sync.Mutex
	parsed map[string]*Playbook // by text
	order  []string             // the oldest first
}

// New makes the model. The fallback answers what a playbook says nothing about.
func New(fallback model.Model) *Model {
	return &Model{fallback: fallback, parsed: map[string]*Playbook{}}
}

// Info implements model.Model.
func (*Model) Info() model.Info {
	return model.Info{Name: Name, Deterministic: true, Description: "Steps that a person wrote, given with the task as a YAML playbook; no language model."}
}

// Generate implements model.Model.
func (m *Model) Generate(ctx context.Context, req *model.Request, emit func(string) error) (model.Usage, error) {
	tc := req.Facts.Context
	switch req.Purpose {
	case model.ToolRisk, model.IsParamError, model.DescribeError, model.MissingParams, model.FillParams:
		return m.fallback.Generate(ctx, req, emit)
	}
	p, err := m.parse(tc.GetPlaybook())
	if err != nil {
		return model.Usage{}, precondition(err)
	}
	r := &run{Playbook: p, tc: tc}
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
	text, err := jsondoc.Marshal(answer)
	if err != nil {
		return model.Usage{}, fmt.Errorf("playbook: write the answer for %s: %w", req.Purpose, err)
	}
	return model.Usage{}, emit(text)
}

// parse parses a playbook unless it was parsed before.
func (m *Model) parse(text string) (*Playbook, error) {
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
	case model.FlowName:
		return object{"name": r.flowName()}, nil
	case model.FlowRisk:
		return riskObject(r.flowRisk()), nil
	case model.PlanSteps, model.NextStep:
		return r.step(req.Purpose)
	case model.InputParams:
		return r.input(req.Facts.ToolID)
	}
	return nil, fmt.Errorf("playbook: the purpose %q is not known", req.Purpose)
}

func (r *run) lang() lang.Lang { return lang.Of(r.tc.GetLanguage(), r.tc.GetGoal()+r.Name) }

func (r *run) flowName() string {
	for _, s := range []string{r.Name, r.tc.GetGoal(), r.Goal} {
		if title := lang.Title(s); title != "" {
			return title
		}
	}
	return r.lang().Say("Playbook of %d %[2]s", "%[1]d 步的 playbook", len(r.Steps), lang.Plural(len(r.Steps), "step", "steps"))
}

// flowRisk is the highest risk of the steps, by the tools' floors and the playbook's word.
func (r *run) flowRisk() *commonv1.Risk {
	var tools []*catalog.Tool
	said := commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED
	for _, s := range r.Steps {
		facts := model.Facts{Context: r.tc, ToolID: s.Tool}
		if t := facts.Tool(); t != nil {
			tools = append(tools, catalog.NewTool(t))
		}
		said = max(said, s.Risk)
	}
	return r.raised(risk.OfTools(r.lang(), tools), said)
}

// raised raises a risk to what the playbook says; it cannot lower it.
func (r *run) raised(assessed *commonv1.Risk, said commonv1.RiskLevel) *commonv1.Risk {
	if said <= assessed.GetLevel() {
		return assessed
	}
	return &commonv1.Risk{Level: said, Reason: r.lang().Pick("The playbook says so.", "playbook 中如此声明。")}
}

func riskObject(x *commonv1.Risk) object {
	return object{"level": risk.Name(x.GetLevel()), "reason": x.GetReason()}
}

func (r *run) step(purpose model.Purpose) (object, error) {
	p, err := r.next()
	if err != nil {
		return nil, err
	}
	step := object{"tool_id": model.Final, "description": r.lang().Pick("The playbook is done.", "playbook 已全部完成。")}
	if p != nil {
		step = object{"tool_id": p.Tool, "description": p.description}
		if purpose == model.PlanSteps {
			facts := model.Facts{Context: r.tc, ToolID: p.Tool}
			in, err := jsondoc.Parse(p.input)
			if err != nil {
				return nil, fmt.Errorf("playbook: %w", err)
			}
			step["input"] = json.RawMessage(p.input)
			step["risk"] = riskObject(r.raised(risk.Assess(r.lang(), catalog.NewTool(facts.Tool()), in), p.Risk))
		}
	}
	if purpose == model.PlanSteps {
		return object{"steps": []object{step}}, nil
	}
	return step, nil
}

// input gives the step's input as the playbook has it, also after an error: what a person wrote is not mended behind their
// back.
func (r *run) input(toolID string) (object, error) {
	i := len(r.tc.GetHistory())
	if i > 0 && (i >= len(r.Steps) || r.Steps[i].Tool != toolID) && r.tc.GetHistory()[i-1].GetResult() != plannerv1.StepResult_STEP_RESULT_SUCCESS {
		i-- // the step that failed is in the history already
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

// stream emits a text line by line.
func stream(text string, emit func(string) error) error {
	for line := range strings.Lines(text) {
		if err := emit(line); err != nil {
			return err
		}
	}
	return nil
}
