package plan

import (
	"context"
	"encoding/json"
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

// askAboutTask asks the model for JSON about a task. The prompt holds the goal, as many of the last steps as fit, and the template called name, rendered
// with data. respond makes the response from the answer and the usage; its error is the problem with the answer. If the provider finds the prompt too
// long, askAboutTask assumes a smaller window and asks once more.
func askAboutTask[T, R any](ctx context.Context, s *session, name string, data any, schema string, respond func(answer *T, usage *commonv1.Usage) (*R, error)) (*R, error) {
	for again := false; ; again = true {
		system, page, goal := prompt.Render("about", s.tc, nil), prompt.Render(name, s.tc, data), prompt.Render("goal", s.tc, nil)+"\n\n"
		steps, left := "", s.maxPrompt()-estimate(system+goal+page)
		for _, e := range slices.Backward(s.tc.GetHistory()) {
			text := s.digest(e, min(s.outputBytes(), maxOutput/4))
			if left -= estimate(text); left < 0 {
				break
			}
			steps = text + steps
		}
		r := &llm.Request{System: system, Messages: []*plannerv1.ModelMessage{llm.UserText(goal + steps + page)}}
		res, err := ask(ctx, s, r, llm.Output{Name: name, Schema: schema}, func(answer *T) (*R, error) { return respond(answer, s.usage()) })
		if err == nil || !s.shortens(again, r, err) {
			return res, err
		}
	}
}

type inputAnswer struct {
	Input   json.RawMessage
	Missing []string
}

const inputSchema = `{"type":"object","properties":{"input":{"type":"object"},"missing":{"type":"array","items":{"type":"string"}}},"required":["input"]}`

// GetFirstInputParams implements Planner.
func (m *Model) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	tool, _ := catalog.CallOf(req, "")
	return askAboutTask(ctx, m.session(req.GetContext()), "input_params", req, inputSchema, func(a *inputAnswer, usage *commonv1.Usage) (*plannerv1.GetFirstInputParamsResponse, error) {
		in, err := strictjson.ParseObject(string(a.Input))
		if err != nil {
			return nil, err
		}
		missing := tool.Missing(in)
		for _, name := range a.Missing {
			if tool.Prop(name) != nil && !in.Has(name) && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
		return &plannerv1.GetFirstInputParamsResponse{InputJson: in.String(), Missing: missing, Usage: usage}, tool.Misfit(in.String())
	})
}

// missingParams returns the tool and the input of a request, and the required properties that the input lacks.
func missingParams(req interface {
	GetContext() *plannerv1.TaskContext
	GetToolId() string
	GetInputJson() string
}) (tool *catalog.Tool, in *strictjson.Object, names []string) {
	tool, in = catalog.CallOf(req, req.GetInputJson())
	return tool, in, tool.Missing(in)
}

// FillParams implements Planner.
func (m *Model) FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	tool, in, names := missingParams(req)
	if len(names) > 0 && req.GetDescription() == "" {
		filled := input.Merge(tool, in, req.GetContentJson(), "", req.GetError())
		if len(tool.Missing(filled)) == 0 && tool.Misfit(filled.String()) == nil {
			return &plannerv1.FillParamsResponse{InputJson: filled.String(), Usage: &commonv1.Usage{}}, nil
		}
	}
	return askAboutTask(ctx, m.session(req.GetContext()), "fill_params", req, inputSchema, func(a *inputAnswer, usage *commonv1.Usage) (*plannerv1.FillParamsResponse, error) {
		return &plannerv1.FillParamsResponse{InputJson: strictjson.Compact(string(a.Input)), Usage: usage}, tool.Misfit(string(a.Input))
	})
}

const riskSchema = `{"type":"object","properties":{"level":{"type":"string","enum":["LOW","MEDIUM","HIGH"]},"reason":{"type":"string","minLength":1}},"required":["level","reason"],"additionalProperties":false}`

// AssessToolRisk implements Planner. The risk is never below the tool's floor.
func (m *Model) AssessToolRisk(ctx context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error) {
	tool, in := catalog.CallOf(req, req.GetInputJson())
	return askAboutTask(ctx, m.session(req.GetContext()), "tool_risk", req, riskSchema, func(a *struct{ Level, Reason string }, usage *commonv1.Usage) (*plannerv1.AssessToolRiskResponse, error) {
		assessed := risk.Assess(prompt.LangOf(req.GetContext()), tool, in)
		if rated := risk.Parse(a.Level); rated >= assessed.GetLevel() {
			assessed = &commonv1.Risk{Level: rated, Reason: prompt.Line(a.Reason)}
		}
		return &plannerv1.AssessToolRiskResponse{Risk: assessed, Usage: usage}, nil
	})
}

const paramErrorSchema = `{"type":"object","properties":{"is_param_error":{"type":"boolean"}},"required":["is_param_error"],"additionalProperties":false}`

// IsParamError implements Planner.
func (m *Model) IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	return askAboutTask(ctx, m.session(req.GetContext()), "is_param_error", req, paramErrorSchema, func(res *plannerv1.IsParamErrorResponse, usage *commonv1.Usage) (*plannerv1.IsParamErrorResponse, error) {
		res.Usage = usage
		return res, nil
	})
}

const messageSchema = `{"type":"object","properties":{"message":{"type":"string","minLength":1}},"required":["message"],"additionalProperties":false}`

// DescribeError implements Planner.
func (m *Model) DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	l := prompt.LangOf(req.GetContext())
	if tool, in, names := missingParams(req); len(names) > 0 {
		return &plannerv1.DescribeErrorResponse{Message: input.Shorten(l, input.Describe(l, tool, in, req.GetError())), Usage: &commonv1.Usage{}}, nil
	}
	return askAboutTask(ctx, m.session(req.GetContext()), "describe_error", req, messageSchema, func(res *plannerv1.DescribeErrorResponse, usage *commonv1.Usage) (*plannerv1.DescribeErrorResponse, error) {
		res.Message, res.Usage = input.Shorten(l, res.GetMessage()), usage
		return res, nil
	})
}

const missingSchema = `{"type":"object","properties":{"properties":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["properties"],"additionalProperties":false}`

// GetMissingParams implements Planner. If the input has all required properties, the model names the properties to ask for.
func (m *Model) GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	tool, _, names := missingParams(req)
	if len(names) > 0 {
		return &plannerv1.GetMissingParamsResponse{SchemaJson: input.Form(tool, names), Usage: &commonv1.Usage{}}, nil
	}
	return askAboutTask(ctx, m.session(req.GetContext()), "missing_params", req, missingSchema, func(a *struct{ Properties []string }, usage *commonv1.Usage) (*plannerv1.GetMissingParamsResponse, error) {
		for _, name := range a.Properties {
			if tool.Prop(name) == nil {
				return nil, fmt.Errorf("the input has no property %q", name)
			}
		}
		return &plannerv1.GetMissingParamsResponse{SchemaJson: input.Form(tool, a.Properties), Usage: usage}, nil
	})
}
