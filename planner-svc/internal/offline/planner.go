// Package offline is the model `offline`: a planner without a language model. It reads the goal with patterns, chooses tools by
// their purpose, fills inputs by schema and writes answers from templates. It is deterministic. It never guesses an input, and its
// answer names the parts of the goal that it did not understand.
package offline

import (
	"cmp"
	"context"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/risk"
)

// Name is the planner's name in tasks and agents.
const Name = "offline"

// Planner plans without a language model. It plans only the next step, because later steps depend on its result.
type Planner struct{}

var _ plan.Planner = (*Planner)(nil)

// New returns the planner.
func New() *Planner { return &Planner{} }

// Info implements plan.Planner.
func (*Planner) Info() *plannerv1.Model {
	return &plannerv1.Model{Name: Name, CanPlan: true,
		Description: "A deterministic planner without a language model: it matches the goal's words to tools, and refuses a goal that it cannot match."}
}

// PlanSteps implements plan.Planner.
func (*Planner) PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest, emit func(string) error) (res *plannerv1.PlanStepsResponse, err error) {
	w := newWork(ctx, req.GetContext())
	final := &plannerv1.PlannedStep{ToolId: plan.Final, Description: w.nextText()}
	res = &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{cmp.Or(w.next, final)}, Usage: &commonv1.Usage{}}
	if req.GetBegin() {
		res.FlowName = cmp.Or(lang.Title(w.tc.GetGoal()), w.l.Pick("Nothing to do", "无事可做"))
		res.FlowRisk = w.flowRisk()
	}
	if w.next == nil {
		var text string
		text, res.GoalResult, err = w.write("", emit)
		res.Answer = &text
	}
	return res, err
}

// GenerateAnswer implements plan.Planner.
func (*Planner) GenerateAnswer(ctx context.Context, req *plannerv1.GenerateAnswerRequest, emit func(string) error) (*plannerv1.GenerateAnswerResponse, error) {
	w := newWork(ctx, req.GetContext())
	if req.GetExplainError() {
		var failed []string
		for _, st := range req.GetSubtasks() {
			if st.GetStatus() == "FAILED" {
				failed = append(failed, w.l.Say("The MCP server %s failed: %s", "MCP 服务器 %s 失败：%s", st.GetTitle(), st.GetSummary()))
			}
		}
		_, err := w.sign(w.explain(failed), emit)
		return &plannerv1.GenerateAnswerResponse{Usage: &commonv1.Usage{}, GoalResult: plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED}, err
	}
	_, reached, err := w.write(req.GetCutShort(), emit)
	return &plannerv1.GenerateAnswerResponse{Usage: &commonv1.Usage{}, GoalResult: reached}, err
}

// GetFirstInputParams returns the planned call's input if that call uses this tool; otherwise the parameters found in the description, or in the
// goal if there is no description. After an error, the members of the failed input take precedence, converted to the schema's types.
func (*Planner) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	t, failed := catalog.CallOf(req, req.GetFailedInputJson())
	w := newWork(ctx, req.GetContext())
	found, err := strictjson.ParseObject(w.next.GetInputJson())
	if err != nil || w.next.GetToolId() != t.GetId() {
		text := cmp.Or(strings.TrimSpace(req.GetDescription()), w.tc.GetGoal())
		found = input.ParamsOf(t).Fill(input.Scan(text)).Input
	}
	if req.GetError() != "" || req.GetFailedInputJson() != "" {
		found = input.Merge(t, found, failed.String(), "", "")
	}
	return &plannerv1.GetFirstInputParamsResponse{InputJson: found.String(), Missing: t.Missing(found), Usage: &commonv1.Usage{}}, nil
}

// FillParams implements plan.Planner.
func (*Planner) FillParams(_ context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	t, in := catalog.CallOf(req, req.GetInputJson())
	out := input.Merge(t, in, req.GetContentJson(), req.GetDescription(), req.GetError())
	return &plannerv1.FillParamsResponse{InputJson: out.String(), Usage: &commonv1.Usage{}}, nil
}

// AssessToolRisk implements plan.Planner.
func (*Planner) AssessToolRisk(_ context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error) {
	t, in := catalog.CallOf(req, req.GetInputJson())
	return &plannerv1.AssessToolRiskResponse{Risk: risk.Assess(prompt.LangOf(req.GetContext()), t, in), Usage: &commonv1.Usage{}}, nil
}

// IsParamError implements plan.Planner.
func (*Planner) IsParamError(_ context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	t, in := catalog.CallOf(req, req.GetInputJson())
	return &plannerv1.IsParamErrorResponse{IsParamError: input.IsParamError(t, in, req.GetError()), Usage: &commonv1.Usage{}}, nil
}

// DescribeError implements plan.Planner.
func (*Planner) DescribeError(_ context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	t, in := catalog.CallOf(req, req.GetInputJson())
	l := prompt.LangOf(req.GetContext())
	return &plannerv1.DescribeErrorResponse{Message: input.Shorten(l, input.Describe(l, t, in, req.GetError())), Usage: &commonv1.Usage{}}, nil
}

// GetMissingParams implements plan.Planner.
func (*Planner) GetMissingParams(_ context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	t, in := catalog.CallOf(req, req.GetInputJson())
	return &plannerv1.GetMissingParamsResponse{SchemaJson: input.Form(t, input.Offending(t, in, req.GetError())), Usage: &commonv1.Usage{}}, nil
}

// flowRisk returns the highest risk floor of the tools that the goal needs.
func (w *work) flowRisk() *commonv1.Risk {
	var tools []*catalog.Tool
	for _, d := range w.demands {
		if len(w.notUnderstood) == 0 {
			tools = append(tools, d.choice.Tool)
		}
	}
	return risk.OfTools(w.l, tools)
}
