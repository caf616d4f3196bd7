package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/risk"
)

// question asks a structured question about a request's task, and returns the answer with what it cost. The prompt has the goal, the last steps
// and the page of that name, which reads the request. If T is a message of the contract, the answer is its JSON.
func question[T any](ctx context.Context, m *Model, name string, req interface{ GetContext() *plannerv1.TaskContext }, schema string, check func(*T) error) (*T, *commonv1.Usage, error) {
	s := m.session(req.GetContext())
	system, page, goal := s.renderPrompt("about", nil), s.renderPrompt(name, req), s.renderPrompt("goal", nil)
	steps := s.lastSteps(estimate(system + goal + page))
	r := &llm.Request{System: system, Messages: []*plannerv1.ModelMessage{llm.UserText(goal + "\n\n" + steps + page)}}
	answer, err := ask(ctx, s, r, llm.Output{Name: name, Schema: schema}, check)
	return answer, s.usage(), err
}

// lastSteps renders as many of the last steps as fit beside other tokens of the prompt.
func (s *session) lastSteps(other int) string {
	steps, left := "", s.budget()-other
	for _, e := range slices.Backward(s.tc.GetHistory()) {
		text := s.digest(e, min(s.outputBytes(), maxOutput/4))
		if left -= estimate(text); left < 0 {
			break
		}
		steps = text + steps
	}
	return steps
}

// toolOf returns the tool of a request about a call.
func toolOf(req interface {
	GetContext() *plannerv1.TaskContext
	GetToolId() string
}) *catalog.Tool {
	return catalog.NewTool(catalog.Find(req.GetContext().GetTools(), req.GetToolId()))
}

type inputAnswer struct {
	Input   inputObject `json:"input"`
	Missing []string    `json:"missing"`
}

func (a *inputAnswer) fits(t *catalog.Tool) error { return misfit(t, a.Input.String()) }

const inputSchema = `{"type":"object","properties":{"input":{"type":"object"},"missing":{"type":"array","items":{"type":"string"}}},"required":["input"]}`

// GetFirstInputParams implements Planner.
func (m *Model) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	tool := toolOf(req)
	a, usage, err := question(ctx, m, "input_params", req, inputSchema, func(a *inputAnswer) error { return a.fits(tool) })
	if err != nil {
		return nil, err
	}
	missing := tool.Missing(a.Input.Object)
	for _, name := range a.Missing {
		if tool.Prop(name) != nil && !a.Input.Has(name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return &plannerv1.GetFirstInputParamsResponse{InputJson: a.Input.String(), Missing: missing, Usage: usage}, nil
}

// FillParams implements Planner.
func (m *Model) FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	tool := toolOf(req)
	a, usage, err := question(ctx, m, "fill_params", req, inputSchema, func(a *inputAnswer) error { return a.fits(tool) })
	if err != nil {
		return nil, err
	}
	return &plannerv1.FillParamsResponse{InputJson: a.Input.String(), Usage: usage}, nil
}

const riskSchema = `{"type":"object","properties":{"level":{"type":"string","enum":["LOW","MEDIUM","HIGH"]},"reason":{"type":"string","minLength":1}},"required":["level","reason"],"additionalProperties":false}`

// AssessToolRisk implements Planner. The risk is never below the tool's floor.
func (m *Model) AssessToolRisk(ctx context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error) {
	in, err := strictjson.ParseObject(cmp.Or(req.GetInputJson(), "{}"))
	if err != nil {
		return nil, Invalid("input_json", "%w", err)
	}
	a, usage, err := question[struct{ Level, Reason string }](ctx, m, "tool_risk", req, riskSchema, nil)
	if err != nil {
		return nil, err
	}
	demanded := risk.Assess(prompt.LangOf(req.GetContext()), toolOf(req), in)
	if said := risk.Parse(a.Level); said >= demanded.GetLevel() {
		demanded = &commonv1.Risk{Level: said, Reason: prompt.Line(a.Reason)}
	}
	return &plannerv1.AssessToolRiskResponse{Risk: demanded, Usage: usage}, nil
}

const paramErrorSchema = `{"type":"object","properties":{"is_param_error":{"type":"boolean"}},"required":["is_param_error"],"additionalProperties":false}`

// IsParamError implements Planner.
func (m *Model) IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	res, usage, err := question[plannerv1.IsParamErrorResponse](ctx, m, "is_param_error", req, paramErrorSchema, nil)
	if err != nil {
		return nil, err
	}
	res.Usage = usage
	return res, nil
}

const messageSchema = `{"type":"object","properties":{"message":{"type":"string","minLength":1}},"required":["message"],"additionalProperties":false}`

// DescribeError implements Planner.
func (m *Model) DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	res, usage, err := question[plannerv1.DescribeErrorResponse](ctx, m, "describe_error", req, messageSchema, nil)
	if err != nil {
		return nil, err
	}
	res.Message, res.Usage = input.Shorten(prompt.LangOf(req.GetContext()), res.GetMessage()), usage
	return res, nil
}

const missingSchema = `{"type":"object","properties":{"properties":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["properties"],"additionalProperties":false}`

// GetMissingParams implements Planner. The model names the properties; the form is made of the tool's schema.
func (m *Model) GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	tool := toolOf(req)
	a, usage, err := question(ctx, m, "missing_params", req, missingSchema, func(a *struct{ Properties []string }) error {
		for _, name := range a.Properties {
			if tool.Prop(name) == nil {
				return fmt.Errorf("the input has no property %q", name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &plannerv1.GetMissingParamsResponse{SchemaJson: input.Form(tool, a.Properties), Usage: usage}, nil
}
