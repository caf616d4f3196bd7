package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/llm"
)

// fakeModel replies what it is told to and keeps the requests.
type fakeModel struct {
	info     llm.Info
	replies  []func(r *llm.Request, emit func(llm.Delta) error) (*llm.Reply, error)
	requests []*llm.Request
}

func (f *fakeModel) Info() llm.Info { return f.info }

func (f *fakeModel) Generate(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	kept := *r
	f.requests = append(f.requests, &kept)
	if len(f.requests) > len(f.replies) {
		return &llm.Reply{}, fmt.Errorf("the fake model has no reply for request %d:\n%s", len(f.requests), show(r))
	}
	if onDelta == nil {
		onDelta = func(llm.Delta) error { return nil }
	}
	reply, err := f.replies[len(f.requests)-1](r, onDelta)
	if reply == nil {
		reply = &llm.Reply{}
	}
	reply.Usage = llm.Usage{Input: 100, Output: 10, Requests: 1}.PricedBy(f.info.Price)
	return reply, err
}

type replyFunc = func(r *llm.Request, emit func(llm.Delta) error) (*llm.Reply, error)

// says is a reply of text, streamed word by word.
func says(text string) replyFunc {
	return func(_ *llm.Request, emit func(llm.Delta) error) (*llm.Reply, error) {
		for _, w := range strings.SplitAfter(text, " ") {
			if err := emit(llm.Delta{Text: w}); err != nil {
				return nil, err
			}
		}
		return &llm.Reply{Text: text}, nil
	}
}

// calls is a reply of tool calls: names and arguments in turn.
func calls(namesAndArgs ...string) replyFunc { return remarks("", namesAndArgs...) }

// remarks is calls with a text before them.
func remarks(text string, namesAndArgs ...string) replyFunc {
	return func(_ *llm.Request, emit func(llm.Delta) error) (*llm.Reply, error) {
		reply := &llm.Reply{Text: text, Stop: plannerv1.StopReason_STOP_REASON_TOOL_CALLS}
		if err := emit(llm.Delta{Text: text}); err != nil {
			return nil, err
		}
		for i := 0; i < len(namesAndArgs); i += 2 {
			c := &plannerv1.ModelToolCall{Id: fmt.Sprintf("toolu_%d", i), Name: namesAndArgs[i], InputJson: namesAndArgs[i+1]}
			if err := emit(llm.Delta{Call: true}); err != nil {
				return nil, err
			}
			reply.Calls = append(reply.Calls, c)
		}
		return reply, nil
	}
}

// cutOff is a reply that the limit of tokens cut off.
func cutOff(reply replyFunc) replyFunc {
	return func(r *llm.Request, emit func(llm.Delta) error) (*llm.Reply, error) {
		out, err := reply(r, emit)
		out.Stop = plannerv1.StopReason_STOP_REASON_MAX_TOKENS
		return out, err
	}
}

// fails is a failing call.
func fails(err error) replyFunc {
	return func(*llm.Request, func(llm.Delta) error) (*llm.Reply, error) { return nil, err }
}

// native is a model with tools and native schemas.
func native(replies ...replyFunc) *fakeModel {
	return &fakeModel{info: llm.Info{Name: "fake", Tools: true, Schema: true, ContextWindow: 128_000, MaxTokens: 4096, Price: &llm.Price{Input: 2, Output: 10}}, replies: replies}
}

func planner(t testing.TB, f *fakeModel) *Model {
	t.Helper()
	return NewFactory(0, slog.New(slog.DiscardHandler)).Planner(f)
}

func task(history ...*plannerv1.HistoryEntry) *plannerv1.TaskContext {
	return &plannerv1.TaskContext{TaskId: "t1", Goal: "Copy a.txt to b.txt", Language: commonv1.Language_LANGUAGE_EN, History: history, Tools: []*commonv1.Tool{
		{Id: "fs/read", McpId: "fs", Name: "read", Description: "Reads a file.", Effect: commonv1.Effect_EFFECT_READ,
			InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`},
		{Id: "fs/write", McpId: "fs", Name: "write", Description: "Writes a file.", Effect: commonv1.Effect_EFFECT_WRITE,
			InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`},
		{Id: "fs.eu/delete file", McpId: "fs.eu", Name: "delete file", Effect: commonv1.Effect_EFFECT_DESTRUCTIVE,
			InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"},"pawl_why":{"type":"string"}}}`},
	}}
}

func done(n int, tool, input, message string) *plannerv1.HistoryEntry {
	out, _ := json.Marshal(map[string]string{"message": message})
	return &plannerv1.HistoryEntry{StepId: fmt.Sprintf("step-%d", n), ToolId: tool, Description: "Because", InputJson: input,
		Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, OutputJson: string(out), Outcome: commonv1.Outcome_OUTCOME_KNOWN}
}

// show renders a request as text, in the order in which providers cache it.
func show(r *llm.Request) string {
	var b strings.Builder
	for _, t := range r.Tools {
		fmt.Fprintf(&b, "tool %s\n%s\n%s\n", t.GetName(), t.GetDescription(), t.GetInputSchemaJson())
	}
	b.WriteString("system\n" + r.System + "\n")
	for _, m := range r.Messages {
		for _, p := range m.GetParts() {
			switch part := p.GetPart().(type) {
			case *plannerv1.ModelPart_ToolCall:
				fmt.Fprintf(&b, "call %s %s %s\n", part.ToolCall.GetId(), part.ToolCall.GetName(), part.ToolCall.GetInputJson())
			case *plannerv1.ModelPart_ToolResult:
				fmt.Fprintf(&b, "result %s %v\n%s\n", part.ToolResult.GetCallId(), part.ToolResult.GetIsError(), part.ToolResult.GetText())
			default:
				fmt.Fprintf(&b, "%d\n%s\n", m.GetRole(), p.GetText())
			}
		}
	}
	return b.String()
}

// planSteps asks for steps and returns the response with what was streamed.
func planSteps(t testing.TB, f *fakeModel, tc *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, []string, error) {
	t.Helper()
	var pieces []string
	res, err := planner(t, f).PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc, Begin: len(tc.GetHistory()) == 0}, func(text string) error {
		pieces = append(pieces, text)
		return nil
	})
	return res, pieces, err
}

func one(t testing.TB, f *fakeModel, tc *plannerv1.TaskContext) *plannerv1.PlanStepsResponse {
	t.Helper()
	res, _, err := planSteps(t, f, tc)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
