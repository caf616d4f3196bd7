package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/risk"
)

// askAboutTask asks the model for JSON about a task. The prompt holds the goal, as many of the last steps as fit, and the template called name, rendered
// with data; the answer fits the schema of that name. respond makes the response from the answer and the usage; its error is the problem with the answer. If the provider finds the prompt too
// long, askAboutTask assumes a smaller window and asks once more.
func askAboutTask[T, R any](ctx context.Context, s *session, name string, data any, respond func(answer *T, usage *commonv1.Usage) (*R, error)) (*R, error) {
	for again := false; ; again = true {
		r := s.question(prompt.Render("about", s.tc, nil), prompt.Render(name, s.tc, data), min(s.outputBytes(), maxOutput/4))
		res, err := ask(ctx, s, r, llm.Output{Name: name, Schema: prompt.Schema(name)}, func(answer *T) (*R, error) { return respond(answer, s.usage()) })
		if err == nil || !s.shortens(again, r, err) {
			return res, err
		}
	}
}

// question returns a request that holds the goal, as many of the last steps as fit, with at most limit bytes of each output, and a page.
func (s *session) question(system, page string, limit int) *llm.Request {
	goal := s.goalPage(s.tc.GetMemory())
	for ; estimate(system+goal+page) > s.maxPrompt() && len(s.messages) > 0; goal = s.goalPage(s.tc.GetMemory()) {
		s.dropMessages()
	}
	steps, left := "", s.maxPrompt()-estimate(system+goal+page)
	for _, e := range slices.Backward(s.tc.GetHistory()) {
		text := s.digest(e, limit)
		if left -= estimate(text); left < 0 {
			break
		}
		steps = text + steps
	}
	return &llm.Request{System: system, Messages: []*plannerv1.ModelMessage{llm.UserText(goal + "\n\n" + steps + page)}}
}

type inputAnswer struct {
	Input   json.RawMessage
	Missing []string
}

// GetFirstInputParams implements Planner.
func (m *Model) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	tool, _ := catalog.CallOf(req, "")
	return askAboutTask(ctx, m.session(ctx, req.GetContext()), "input_params", req, func(a *inputAnswer, usage *commonv1.Usage) (*plannerv1.GetFirstInputParamsResponse, error) {
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
	return askAboutTask(ctx, m.session(ctx, req.GetContext()), "fill_params", req, func(a *inputAnswer, usage *commonv1.Usage) (*plannerv1.FillParamsResponse, error) {
		return &plannerv1.FillParamsResponse{InputJson: strictjson.Compact(string(a.Input)), Usage: usage}, tool.Misfit(string(a.Input))
	})
}

// AssessToolRisk implements Planner. The risk is never below the tool's floor.
func (m *Model) AssessToolRisk(ctx context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error) {
	tool, in := catalog.CallOf(req, req.GetInputJson())
	return askAboutTask(ctx, m.session(ctx, req.GetContext()), "tool_risk", req, func(a *struct{ Level, Reason string }, usage *commonv1.Usage) (*plannerv1.AssessToolRiskResponse, error) {
		assessed := risk.Assess(prompt.LangOf(req.GetContext()), tool, in)
		if rated := risk.Parse(a.Level); rated >= assessed.GetLevel() {
			assessed = &commonv1.Risk{Level: rated, Reason: prompt.Line(a.Reason)}
		}
		return &plannerv1.AssessToolRiskResponse{Risk: assessed, Usage: usage}, nil
	})
}

// IsParamError implements Planner.
func (m *Model) IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	return askAboutTask(ctx, m.session(ctx, req.GetContext()), "is_param_error", req, func(res *plannerv1.IsParamErrorResponse, usage *commonv1.Usage) (*plannerv1.IsParamErrorResponse, error) {
		res.Usage = usage
		return res, nil
	})
}

// DescribeError implements Planner.
func (m *Model) DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	l := prompt.LangOf(req.GetContext())
	if tool, in, names := missingParams(req); len(names) > 0 {
		return &plannerv1.DescribeErrorResponse{Message: input.Shorten(l, input.Describe(l, tool, in, req.GetError())), Usage: &commonv1.Usage{}}, nil
	}
	return askAboutTask(ctx, m.session(ctx, req.GetContext()), "describe_error", req, func(res *plannerv1.DescribeErrorResponse, usage *commonv1.Usage) (*plannerv1.DescribeErrorResponse, error) {
		res.Message, res.Usage = input.Shorten(l, res.GetMessage()), usage
		return res, nil
	})
}

// GetMissingParams implements Planner. If the input has all required properties, the model names the properties to ask for.
func (m *Model) GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	tool, _, names := missingParams(req)
	if len(names) > 0 {
		return &plannerv1.GetMissingParamsResponse{SchemaJson: input.Form(tool, names), Usage: &commonv1.Usage{}}, nil
	}
	return askAboutTask(ctx, m.session(ctx, req.GetContext()), "missing_params", req, func(a *struct{ Properties []string }, usage *commonv1.Usage) (*plannerv1.GetMissingParamsResponse, error) {
		for _, name := range a.Properties {
			if tool.Prop(name) == nil {
				return nil, fmt.Errorf("the input has no property %q", name)
			}
		}
		return &plannerv1.GetMissingParamsResponse{SchemaJson: input.Form(tool, a.Properties), Usage: usage}, nil
	})
}

// askUntilValid calls the model until accept returns no messages. It appends the messages (the reply and the response to it) to the next
// request. A problem makes the reply a failed attempt; after s.tries failed attempts the error holds the problem and the last reply.
func (s *session) askUntilValid(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error,
	accept func(*llm.Reply) (messages []*plannerv1.ModelMessage, problem error),
) error {
	for try := 1; ; {
		reply, err := s.generate(ctx, r, onDelta)
		if err != nil {
			return err
		}
		messages, problem := accept(reply)
		if len(messages) == 0 {
			return nil
		}
		if problem != nil {
			s.log.WarnContext(ctx, "a model's reply cannot be used", "task_id", s.tc.GetTaskId(), "model", s.info.Name, "try", try, "problem", problem.Error())
			if try >= s.tries {
				return s.unusableReply(try, problem.Error(), reply)
			}
			try++
		}
		r.Messages = append(r.Messages, messages...)
	}
}

// ask asks for a JSON answer that fits a schema. accept turns the decoded answer into the result, or returns a problem that the schema cannot
// express.
func ask[T, R any](ctx context.Context, s *session, r *llm.Request, output llm.Output, accept func(*T) (R, error)) (result R, err error) {
	compiled, err := s.expect(r, output)
	if err != nil {
		return result, err
	}
	err = s.askUntilValid(ctx, r, nil, func(reply *llm.Reply) ([]*plannerv1.ModelMessage, error) {
		answer, problem := decode[T](compiled, reply)
		if problem == nil {
			result, problem = accept(answer)
		}
		if problem == nil {
			return nil, nil
		}
		return s.correctJSON(reply, problem), problem
	})
	if err != nil {
		var none R
		return none, err
	}
	return result, nil
}

// expect sets the schema of the reply and returns it compiled. If the model has no native support for schemas, or may call tools, the prompt holds the schema.
func (s *session) expect(r *llm.Request, output llm.Output) (*schema.Schema, error) {
	if !s.info.Schema || len(r.Tools) > 0 {
		r.System = strings.TrimSpace(r.System + "\n\n" + prompt.Render("json", s.tc, output.Schema))
	} else {
		r.Output = &output
	}
	return schema.Compile(output.Schema)
}

// correctJSON returns the messages to append: a JSON reply that cannot be used, and the request to correct it.
func (s *session) correctJSON(reply *llm.Reply, problem error) []*plannerv1.ModelMessage {
	text := cmp.Or(strings.TrimSpace(reply.Text), "{}")
	return []*plannerv1.ModelMessage{llm.AssistantText(text), llm.UserText(prompt.Render("correction", s.tc, problem.Error()))}
}

// Generate answers a request and writes the reply's text to emit. budget holds the limits on model calls, tokens and cost; its other fields may
// be empty. With an outputSchema, the text of a reply without tool calls is JSON that fits it. An error carries the usage of the calls.
func (m *Model) Generate(ctx context.Context, budget *plannerv1.TaskContext, r *llm.Request, outputSchema string, emit func(string) error) (*llm.Reply, error) {
	s := m.session(ctx, budget)
	if outputSchema == "" {
		return s.generate(ctx, r, func(d llm.Delta) error {
			if d.Text == "" {
				return nil
			}
			return emit(d.Text)
		})
	}
	compiled, err := s.expect(r, llm.Output{Name: "output", Schema: outputSchema})
	if err != nil {
		return nil, Invalid("output_schema_json", "%w", err)
	}
	err = s.askUntilValid(ctx, r, nil, func(reply *llm.Reply) ([]*plannerv1.ModelMessage, error) {
		if len(reply.Calls) > 0 {
			return nil, nil
		}
		reply.Text = extractJSON(reply.Text)
		if problem := compiled.Validate(reply.Text); problem != nil {
			return s.correctJSON(reply, problem), problem
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	s.reply.Usage = s.used
	return s.reply, emit(s.reply.Text)
}

func decode[T any](s *schema.Schema, reply *llm.Reply) (*T, error) {
	text := extractJSON(reply.Text)
	if err := s.Validate(text); err != nil {
		return nil, err
	}
	answer := new(T)
	return answer, json.Unmarshal([]byte(text), answer)
}

// extractJSON returns the longest JSON object in a model's text. If there is none, it returns the text, and validation reports what is wrong.
func extractJSON(text string) string {
	longest := ""
	for from, failures := 0, 0; from < len(text) && failures < maxFailures; {
		i := strings.IndexByte(text[from:], '{')
		if i < 0 {
			break
		}
		from += i
		var raw json.RawMessage
		if json.NewDecoder(strings.NewReader(text[from:])).Decode(&raw) != nil {
			from++
			failures++
			continue
		}
		if len(raw) >= len(longest) {
			longest = string(raw)
		}
		from += len(raw)
	}
	return cmp.Or(longest, strings.TrimSpace(text))
}

// maxFailures bounds the search of extractJSON in texts with many unbalanced braces.
const maxFailures = 100
