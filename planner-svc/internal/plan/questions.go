package plan

import (
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

// about is what a question about a call shows.
type about struct {
	Tool, Description, Input, Error, Content string
}

// aboutCall is a request about a call of a tool.
type aboutCall interface {
	GetContext() *plannerv1.TaskContext
	GetToolId() string
}

// question asks a structured question about the task. The prompt has the goal, the last steps and the page of that name.
func question[T any](ctx context.Context, m *Model, s *session, name string, data any, schema string, check func(*T) error) (*T, error) {
	system, err := m.prompts.Render("about", s.tc, nil)
	if err != nil {
		return nil, s.fail(err)
	}
	page, err := m.prompts.Render(name, s.tc, data)
	if err != nil {
		return nil, s.fail(err)
	}
	goal, err := m.prompts.Render("goal", s.tc, nil)
	if err != nil {
		return nil, s.fail(err)
	}
	steps, err := m.lastSteps(s, estimate(system+goal+page))
	if err != nil {
		return nil, s.fail(err)
	}
	r := &llm.Request{System: system, Messages: []llm.Message{llm.UserText(goal + "\n\n" + steps + page)}}
	return ask(ctx, m, s, r, llm.Output{Name: name, Schema: schema}, check)
}

// lastSteps renders as many of the last steps as fit beside other tokens of the prompt.
func (m *Model) lastSteps(s *session, other int) (string, error) {
	steps, left := "", s.budget()-other
	for _, e := range slices.Backward(s.tc.GetHistory()) {
		text, err := m.digest(s.tc, e, min(s.outputBytes(), maxOutput/4))
		if err != nil {
			return "", err
		}
		if left -= estimate(text); left < 0 {
			break
		}
		steps = text + steps
	}
	return steps, nil
}

// tool renders the definition of a request's tool.
func (a about) of(req aboutCall) (about, *commonv1.Tool) {
	t := ToolOf(req.GetContext(), req.GetToolId())
	a.Tool = prompt.Line(t.GetId()) + "\n" + prompt.Fence(prompt.Definition(t)+"\ninput schema: "+prompt.Schema(t))
	if a.Input == "" {
		a.Input = "{}"
	}
	return a, t
}

type inputAnswer struct {
	Input   inputObject `json:"input"`
	Missing []string    `json:"missing"`
}

const inputSchema = `{"type":"object","properties":{"input":{"type":"object"},"missing":{"type":"array","items":{"type":"string"}}},"required":["input"]}`

// GetFirstInputParams implements Planner.
func (m *Model) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	s := m.session(req.GetContext())
	data, t := about{Description: req.GetDescription(), Input: req.GetFailedInputJson(), Error: req.GetError()}.of(req)
	tool := catalog.NewTool(t)
	a, err := question(ctx, m, s, "input_params", data, inputSchema, func(a *inputAnswer) error { return misfit(tool, a.Input.String()) })
	if err != nil {
		return nil, err
	}
	missing := tool.Missing(a.Input.Object)
	for _, name := range a.Missing {
		if tool.Prop(name) != nil && !a.Input.Has(name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return &plannerv1.GetFirstInputParamsResponse{InputJson: a.Input.String(), Missing: missing, Usage: s.usage()}, nil
}

// FillParams implements Planner.
func (m *Model) FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	s := m.session(req.GetContext())
	data, t := about{Description: req.GetDescription(), Input: req.GetInputJson(), Error: req.GetError(), Content: req.GetContentJson()}.of(req)
	tool := catalog.NewTool(t)
	a, err := question(ctx, m, s, "fill_params", data, inputSchema, func(a *inputAnswer) error { return misfit(tool, a.Input.String()) })
	if err != nil {
		return nil, err
	}
	return &plannerv1.FillParamsResponse{InputJson: a.Input.String(), Usage: s.usage()}, nil
}

type riskAnswer struct {
	Level  string `json:"level"`
	Reason string `json:"reason"`
}

const riskSchema = `{"type":"object","properties":{"level":{"type":"string","enum":["LOW","MEDIUM","HIGH"]},"reason":{"type":"string","minLength":1}},"required":["level","reason"],"additionalProperties":false}`

// AssessToolRisk implements Planner. The risk is never below the tool's floor.
func (m *Model) AssessToolRisk(ctx context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error) {
	s := m.session(req.GetContext())
	data, t := about{Input: req.GetInputJson()}.of(req)
	a, err := question[riskAnswer](ctx, m, s, "tool_risk", data, riskSchema, nil)
	if err != nil {
		return nil, err
	}
	in, err := strictjson.ParseObject(data.Input)
	if err != nil {
		return nil, s.fail(invalid("input_json", "%w", err))
	}
	demanded := risk.Assess(prompt.LangOf(s.tc), catalog.NewTool(t), in)
	if said := risk.Parse(a.Level); said >= demanded.GetLevel() {
		demanded = &commonv1.Risk{Level: said, Reason: prompt.Line(a.Reason)}
	}
	return &plannerv1.AssessToolRiskResponse{Risk: demanded, Usage: s.usage()}, nil
}

type paramErrorAnswer struct {
	Is bool `json:"is_param_error"`
}

const paramErrorSchema = `{"type":"object","properties":{"is_param_error":{"type":"boolean"}},"required":["is_param_error"],"additionalProperties":false}`

// IsParamError implements Planner.
func (m *Model) IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	s := m.session(req.GetContext())
	data, _ := about{Input: req.GetInputJson(), Error: req.GetError()}.of(req)
	a, err := question[paramErrorAnswer](ctx, m, s, "is_param_error", data, paramErrorSchema, nil)
	if err != nil {
		return nil, err
	}
	return &plannerv1.IsParamErrorResponse{IsParamError: a.Is, Usage: s.usage()}, nil
}

type messageAnswer struct {
	Message string `json:"message"`
}

const messageSchema = `{"type":"object","properties":{"message":{"type":"string","minLength":1}},"required":["message"],"additionalProperties":false}`

// DescribeError implements Planner.
func (m *Model) DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	s := m.session(req.GetContext())
	data, _ := about{Input: req.GetInputJson(), Error: req.GetError()}.of(req)
	a, err := question[messageAnswer](ctx, m, s, "describe_error", data, messageSchema, nil)
	if err != nil {
		return nil, err
	}
	return &plannerv1.DescribeErrorResponse{Message: input.Shorten(prompt.LangOf(s.tc), a.Message), Usage: s.usage()}, nil
}

type missingAnswer struct {
	Properties []string `json:"properties"`
}

const missingSchema = `{"type":"object","properties":{"properties":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["properties"],"additionalProperties":false}`

// GetMissingParams implements Planner. The model names the properties; the form is made of the tool's schema.
func (m *Model) GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	s := m.session(req.GetContext())
	data, t := about{Input: req.GetInputJson(), Error: req.GetError()}.of(req)
	tool := catalog.NewTool(t)
	a, err := question(ctx, m, s, "missing_params", data, missingSchema, func(a *missingAnswer) error {
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
	return &plannerv1.GetMissingParamsResponse{SchemaJson: input.Form(tool, a.Properties), Usage: s.usage()}, nil
}
