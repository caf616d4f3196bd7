package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/model"
	"pawl.dev/planner-svc/internal/risk"
	"pawl.dev/services/strictjson"
)

// Name is how tasks and agents name the model.
const Name = "offline"

// Model is the model `offline`. It has no state. It plans the next step alone: what came of a step decides what comes behind it.
type Model struct{}

// New makes the model.
func New() *Model { return &Model{} }

// Info implements model.Model.
func (*Model) Info() model.Info {
	return model.Info{Name: Name, Deterministic: true,
		Description: "A deterministic planner without a language model: it matches the goal's words to tools, and says so where it cannot."}
}

// Generate implements model.Model.
func (m *Model) Generate(_ context.Context, req *model.Request, emit func(string) error) (model.Usage, error) {
	if req.Purpose == model.Answer {
		return model.Usage{}, stream(newPlan(req.Facts.Context).answer(req.Facts.CutShort), emit)
	}
	answer, err := m.structured(req)
	if err != nil {
		return model.Usage{}, err
	}
	text, err := strictjson.Marshal(answer)
	if err != nil {
		return model.Usage{}, fmt.Errorf("offline: write the answer for %s: %w", req.Purpose, err)
	}
	return model.Usage{}, emit(text)
}

// object is a JSON object of an answer.
type object map[string]any

func (m *Model) structured(req *model.Request) (object, error) {
	f := &req.Facts
	switch req.Purpose {
	case model.FlowName:
		return object{"name": flowName(f.Context)}, nil
	case model.FlowRisk:
		return flowRisk(f.Context), nil
	case model.PlanSteps, model.NextStep:
		return nextStep(newPlan(f.Context), req.Purpose), nil
	}
	t := f.Tool()
	if t == nil {
		return nil, fmt.Errorf("offline: the task has no tool %q", f.ToolID)
	}
	return about(req.Purpose, f, catalog.NewTool(t))
}

// about answers the purposes that are about one tool.
func about(purpose model.Purpose, f *model.Facts, t *catalog.Tool) (object, error) {
	in, err := strictjson.ParseObject(f.InputJSON)
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	l := lang.Of(f.Context.GetLanguage(), f.Context.GetGoal())
	switch purpose {
	case model.InputParams:
		out := firstInput(f, t, in)
		return object{"input": raw(out), "missing": orEmpty(t.Missing(out))}, nil
	case model.FillParams:
		return object{"input": raw(input.Merge(t, in, f.ContentJSON, f.Description, f.Error))}, nil
	case model.ToolRisk:
		r := risk.Assess(l, t, in)
		return object{"level": risk.Name(r.GetLevel()), "reason": r.GetReason()}, nil
	case model.IsParamError:
		return object{"is_param_error": input.IsParamError(t, in, f.Error)}, nil
	case model.DescribeError:
		return object{"message": input.Shorten(l, input.Describe(l, t, in, f.Error))}, nil
	case model.MissingParams:
		return object{"schema": json.RawMessage(input.Form(t, input.Offending(t, in, f.Error)))}, nil
	}
	return nil, fmt.Errorf("offline: the purpose %q is not known", purpose)
}

func flowName(tc *plannerv1.TaskContext) string {
	if name := lang.Title(goal.StripFiller(tc.GetGoal())); name != "" {
		return name
	}
	return lang.Of(tc.GetLanguage(), tc.GetGoal()).Pick("Nothing to do", "无事可做")
}

// flowRisk is the highest floor of the tools that the goal needs, as far as can be told before the first step.
func flowRisk(tc *plannerv1.TaskContext) object {
	p := &plan{l: lang.Of(tc.GetLanguage(), tc.GetGoal()), catalog: catalog.New(tc.GetTools())}
	var tools []*catalog.Tool
	for _, c := range goal.Parse(tc.GetGoal(), p.catalog) {
		_, used := p.script(c)
		tools = append(tools, used...)
	}
	r := risk.OfTools(p.l, tools)
	return object{"level": risk.Name(r.GetLevel()), "reason": r.GetReason()}
}

func nextStep(p *plan, purpose model.Purpose) object {
	id, description := model.Final, p.l.Pick("Nothing is left to do.", "没有剩余的步骤。")
	var full object
	if st := p.next; st != nil {
		id, description = st.tool.GetId(), p.describe(st, p.sections[len(p.sections)-1].clause)
		r := risk.Assess(p.l, st.tool, st.input)
		full = object{"tool_id": id, "description": description, "input": raw(st.input),
			"risk": object{"level": risk.Name(r.GetLevel()), "reason": r.GetReason()}}
	} else {
		full = object{"tool_id": id, "description": description}
	}
	if purpose == model.NextStep {
		return object{"tool_id": id, "description": description}
	}
	return object{"steps": []object{full}}
}

// firstInput is the input of the planned step if the tool is the planned one; else what the description, and then the goal,
// say about the tool. An input that failed is repaired.
func firstInput(f *model.Facts, t *catalog.Tool, failed *strictjson.Object) *strictjson.Object {
	p := newPlan(f.Context)
	planned := p.next != nil && p.next.tool.GetId() == t.GetId()
	c := goal.Single(f.Context.GetGoal())
	switch {
	case planned:
		c = p.sections[len(p.sections)-1].clause
	case strings.TrimSpace(f.Description) != "":
		c = goal.Single(f.Description)
	}
	switch {
	case f.Error != "" || f.InputJSON != "":
		return input.Repair(t, failed, f.Error, c, p.known())
	case planned:
		return p.next.input
	}
	return input.FromClause(t, c, p.known())
}

func raw(o *strictjson.Object) json.RawMessage { return json.RawMessage(o.String()) }

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// stream emits paragraphs one by one, with an empty line between them. Bullets stay together.
func stream(paragraphs []string, emit func(string) error) error {
	for i, text := range paragraphs {
		switch {
		case i == 0:
		case strings.HasPrefix(text, "- "):
			text = "\n" + text
		default:
			text = "\n\n" + text
		}
		if err := emit(text); err != nil {
			return err
		}
	}
	return nil
}
