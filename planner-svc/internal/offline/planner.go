package offline

import (
	"context"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/risk"
)

// Name is how tasks and agents name the planner.
const Name = "offline"

// Planner plans without a language model. It has no state. It plans only the next step: its result decides what follows.
type Planner struct{ plan.NeedsModel }

var _ plan.Planner = (*Planner)(nil)

// New returns the planner.
func New() *Planner { return &Planner{} }

// Info implements plan.Planner.
func (*Planner) Info() plan.Info {
	return plan.Info{Name: Name,
		Description: "A deterministic planner without a language model: it matches the goal's words to tools, and says so where it cannot."}
}

// PlanSteps implements plan.Planner.
func (*Planner) PlanSteps(_ context.Context, req *plannerv1.PlanStepsRequest, _ func(string) error) (*plannerv1.PlanStepsResponse, error) {
	tc := req.GetContext()
	res := &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{nextStep(newWork(tc))}, Usage: &commonv1.Usage{}}
	if req.GetBegin() {
		res.FlowName, res.FlowRisk = flowName(tc), flowRisk(tc)
	}
	return res, nil
}

// GenerateAnswer implements plan.Planner.
func (*Planner) GenerateAnswer(_ context.Context, req *plannerv1.GenerateAnswerRequest, emit func(string) error) (*plannerv1.GenerateAnswerResponse, error) {
	return &plannerv1.GenerateAnswerResponse{Usage: &commonv1.Usage{}}, stream(newWork(req.GetContext()).answer(req.GetCutShort()), emit)
}

// GetFirstInputParams implements plan.Planner.
func (*Planner) GetFirstInputParams(_ context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	t, failed, err := callOf(req, req.GetFailedInputJson())
	if err != nil {
		return nil, err
	}
	out := firstInput(req, t, failed)
	return &plannerv1.GetFirstInputParamsResponse{InputJson: out.String(), Missing: t.Missing(out), Usage: &commonv1.Usage{}}, nil
}

// FillParams implements plan.Planner.
func (*Planner) FillParams(_ context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	t, in, err := callOf(req, req.GetInputJson())
	if err != nil {
		return nil, err
	}
	out := input.Merge(t, in, req.GetContentJson(), req.GetDescription(), req.GetError())
	return &plannerv1.FillParamsResponse{InputJson: out.String(), Usage: &commonv1.Usage{}}, nil
}

// AssessToolRisk implements plan.Planner.
func (*Planner) AssessToolRisk(_ context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error) {
	t, in, err := callOf(req, req.GetInputJson())
	if err != nil {
		return nil, err
	}
	return &plannerv1.AssessToolRiskResponse{Risk: risk.Assess(langOf(req.GetContext()), t, in), Usage: &commonv1.Usage{}}, nil
}

// IsParamError implements plan.Planner.
func (*Planner) IsParamError(_ context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	t, in, err := callOf(req, req.GetInputJson())
	if err != nil {
		return nil, err
	}
	return &plannerv1.IsParamErrorResponse{IsParamError: input.IsParamError(t, in, req.GetError()), Usage: &commonv1.Usage{}}, nil
}

// DescribeError implements plan.Planner.
func (*Planner) DescribeError(_ context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	t, in, err := callOf(req, req.GetInputJson())
	if err != nil {
		return nil, err
	}
	l := langOf(req.GetContext())
	return &plannerv1.DescribeErrorResponse{Message: input.Shorten(l, input.Describe(l, t, in, req.GetError())), Usage: &commonv1.Usage{}}, nil
}

// GetMissingParams implements plan.Planner.
func (*Planner) GetMissingParams(_ context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	t, in, err := callOf(req, req.GetInputJson())
	if err != nil {
		return nil, err
	}
	return &plannerv1.GetMissingParamsResponse{SchemaJson: input.Form(t, input.Offending(t, in, req.GetError())), Usage: &commonv1.Usage{}}, nil
}

// aboutTool is a request about a call of a tool.
type aboutTool interface {
	GetContext() *plannerv1.TaskContext
	GetToolId() string
}

// callOf returns the tool and the input that a request is about. The request was checked by plan.Check.
func callOf(req aboutTool, inputJSON string) (*catalog.Tool, *strictjson.Object, error) {
	if strings.TrimSpace(inputJSON) == "" {
		inputJSON = "{}"
	}
	in, err := strictjson.ParseObject(inputJSON)
	return catalog.NewTool(plan.ToolOf(req.GetContext(), req.GetToolId())), in, err
}

func langOf(tc *plannerv1.TaskContext) lang.Lang { return lang.Of(tc.GetLanguage(), tc.GetGoal()) }

func flowName(tc *plannerv1.TaskContext) string {
	if name := lang.Title(goal.StripFiller(tc.GetGoal())); name != "" {
		return name
	}
	return lang.Of(tc.GetLanguage(), tc.GetGoal()).Pick("Nothing to do", "无事可做")
}

// flowRisk is the highest floor of the tools that the goal needs, as far as can be told before the first step.
func flowRisk(tc *plannerv1.TaskContext) *commonv1.Risk {
	p := &work{l: lang.Of(tc.GetLanguage(), tc.GetGoal()), catalog: catalog.New(tc.GetTools())}
	var tools []*catalog.Tool
	for _, c := range goal.Parse(tc.GetGoal(), p.catalog) {
		_, used := p.script(c)
		tools = append(tools, used...)
	}
	return risk.OfTools(p.l, tools)
}

func nextStep(p *work) *plannerv1.PlannedStep {
	st := p.next
	if st == nil {
		return &plannerv1.PlannedStep{ToolId: plan.Final, Description: p.l.Pick("Nothing is left to do.", "没有剩余的步骤。")}
	}
	return &plannerv1.PlannedStep{
		ToolId: st.tool.GetId(), Description: p.describe(st, p.sections[len(p.sections)-1].clause), InputJson: st.input.String(),
		Risk: risk.Assess(p.l, st.tool, st.input), Missing: st.tool.Missing(st.input),
	}
}

// firstInput is the input of the planned step if the tool is the planned one; else what the description, and then the goal,
// say about the tool. An input that failed is repaired.
func firstInput(req *plannerv1.GetFirstInputParamsRequest, t *catalog.Tool, failed *strictjson.Object) *strictjson.Object {
	p := newWork(req.GetContext())
	planned := p.next != nil && p.next.tool.GetId() == t.GetId()
	c := goal.Single(req.GetContext().GetGoal())
	switch {
	case planned:
		c = p.sections[len(p.sections)-1].clause
	case strings.TrimSpace(req.GetDescription()) != "":
		c = goal.Single(req.GetDescription())
	}
	switch {
	case req.GetError() != "" || req.GetFailedInputJson() != "":
		return input.Repair(t, failed, req.GetError(), c, p.known())
	case planned:
		return p.next.input
	}
	return input.FromClause(t, c, p.known())
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
