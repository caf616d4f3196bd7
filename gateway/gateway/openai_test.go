package gateway_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"pawl.dev/gateway/gateway"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

const chatPath = "/openai/v1/chat/completions"

// hello is the body of a chat completion; more is added to it.
func hello(model, more string) string {
	return `{"model": "` + model + `", "messages": [{"role": "user", "content": "Hello"}]` + more + `}`
}

// reply sends these messages, and then the error.
func reply(err error, messages ...*pipelinev1.StreamCompleteResponse) func(*pipelinev1.StreamCompleteRequest, completionStream) error {
	return func(_ *pipelinev1.StreamCompleteRequest, s completionStream) error {
		for _, m := range messages {
			if err := s.Send(m); err != nil {
				return err
			}
		}
		return err
	}
}

func textPiece(text string) *pipelinev1.StreamCompleteResponse {
	return &pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_Text{Text: text}}
}

func clientCall(id string) *pipelinev1.StreamCompleteResponse {
	return &pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_ToolCall{
		ToolCall: &plannerv1.ModelToolCall{Id: id, Name: "save", InputJson: `{"a":"<b>"}`},
	}}
}

func ended(end *pipelinev1.CompleteResponse) *pipelinev1.StreamCompleteResponse {
	return &pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_Response{Response: end}}
}

// conversation is an answer with a call of an MCP server's tool between two texts, and calls of the client's tools.
func conversation() []*pipelinev1.StreamCompleteResponse {
	return []*pipelinev1.StreamCompleteResponse{
		textPiece("Let me "), textPiece("look."),
		{Event: &pipelinev1.StreamCompleteResponse_ToolCallStarted{ToolCallStarted: &pipelinev1.StartedToolCall{Id: "c", ToolId: "t/echo", InputJson: `{"text":"x"}`}}},
		{Event: &pipelinev1.StreamCompleteResponse_ToolCallEnded{ToolCallEnded: &pipelinev1.CompletedToolCall{Id: "c", ToolId: "t/echo", Error: &commonv1.ErrorMessage{ErrMsg: "no"}}}},
		{Event: &pipelinev1.StreamCompleteResponse_Note{Note: &pipelinev1.CompletionNote{Text: "docs is not reachable"}}},
		textPiece("Done."), clientCall("call_1"), clientCall("call_2"),
		ended(&pipelinev1.CompleteResponse{
			StopReason: plannerv1.StopReason_STOP_REASON_TOOL_CALLS, Model: "gpt", LimitReached: true,
			Usage: &commonv1.Usage{InputTokens: 30, OutputTokens: 7, CachedInputTokens: 10},
		}),
	}
}

var changing = regexp.MustCompile(`"id":"chatcmpl-[^"]+"|"created":[1-9]\d*`)

// stable replaces what differs from answer to answer.
func stable(text string) string { return changing.ReplaceAllString(text, "~") }

const wantCalls = `{"id":"call_1","type":"function","function":{"name":"save","arguments":"{\"a\":\"<b>\"}"}}`

func TestOpenAIChat(t *testing.T) {
	b := start(t, gateway.Config{})
	b.completions.StreamCompleteFn = reply(nil, conversation()...)
	resp, body := b.text("POST", chatPath, hello("m", ""), nil)
	want := `{~,"object":"chat.completion",~,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"Let me look.\n\nDone.","refusal":null,` +
		`"reasoning_content":"Calls t/echo {\"text\":\"x\"}\nt/echo failed: no\ndocs is not reachable\n","tool_calls":[` + wantCalls + `,` + strings.ReplaceAll(wantCalls, "call_1", "call_2") + `]},` +
		`"logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":30,"completion_tokens":7,"total_tokens":37,"prompt_tokens_details":{"cached_tokens":10}},"pawl":{"limitReached":true}}` + "\n"
	if diff := cmp.Diff(want, stable(body)); resp.StatusCode != http.StatusOK || diff != "" {
		t.Errorf("status %d, body (-want +got):\n%s", resp.StatusCode, diff)
	}
}

// TestOpenAIChatBecomesTask: the answer names the task that asks for the approval, and how to give it.
func TestOpenAIChatBecomesTask(t *testing.T) {
	b := start(t, gateway.Config{})
	b.completions.StreamCompleteFn = reply(nil, textPiece("The task T continues this request and asks for it."), ended(&pipelinev1.CompleteResponse{TaskId: "T"}))
	_, body := b.text("POST", chatPath, hello("m", `, "pawl": {"on_approval": "task"}`), nil)
	want := `"content":"The task T continues this request and asks for it. Answer with ` + "`pawl approve T` or `pawl reject T`" + `, or by POST to /v1/tasks/T:resume."`
	if !strings.Contains(body, want) || !strings.Contains(body, `"pawl":{"taskId":"T"}`) {
		t.Errorf("%s\nwant %s", body, want)
	}
}

func TestOpenAIChatStream(t *testing.T) {
	b := start(t, gateway.Config{})
	b.completions.StreamCompleteFn = reply(nil, conversation()...)
	resp, body := b.text("POST", chatPath, hello("m", `, "stream": true, "stream_options": {"include_usage": true}, "parallel_tool_calls": false`), nil)
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	chunk := func(model, rest string) string {
		return `data: {~,"object":"chat.completion.chunk",~,"model":"` + model + `","choices":[` + rest + "}\n\n"
	}
	delta := func(d string) string {
		return chunk("m", `{"index":0,"delta":`+d+`,"logprobs":null,"finish_reason":null}]`)
	}
	want := delta(`{"role":"assistant","content":""}`) + delta(`{"content":"Let me "}`) + delta(`{"content":"look."}`) +
		delta(`{"reasoning_content":"Calls t/echo {\"text\":\"x\"}\n"}`) + delta(`{"reasoning_content":"t/echo failed: no\n"}`) +
		delta(`{"reasoning_content":"docs is not reachable\n"}`) + delta(`{"content":"\n\nDone."}`) +
		delta(`{"tool_calls":[{"index":0,`+wantCalls[1:]+`]}`) +
		chunk("gpt", `{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"pawl":{"limitReached":true}`) +
		chunk("gpt", `],"usage":{"prompt_tokens":30,"completion_tokens":7,"total_tokens":37,"prompt_tokens_details":{"cached_tokens":10}}`) +
		"data: [DONE]\n\n"
	if diff := cmp.Diff(want, stable(body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// TestOpenAIRequests: requests as programs write them become requests of CompletionService; members that Pawl does not know are ignored.
func TestOpenAIRequests(t *testing.T) {
	b := start(t, gateway.Config{})
	b.completions.StreamCompleteFn = reply(nil, ended(&pipelinev1.CompleteResponse{}))
	files, err := filepath.Glob("testdata/openai/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no requests", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var fixture struct {
				Header        header
				Request, Want json.RawMessage
			}
			want := &pipelinev1.CompleteRequest{}
			if err := json.Unmarshal(data, &fixture); err != nil {
				t.Fatal(err)
			} else if err := protojson.Unmarshal(fixture.Want, want); err != nil {
				t.Fatal(err)
			}
			b := b.in(t)
			b.journal.take()
			if resp, body := b.text("POST", chatPath, string(fixture.Request), fixture.Header); resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", resp.StatusCode, body)
			}
			calls := b.journal.take()
			if len(calls) != 1 {
				t.Fatalf("%d calls, want one", len(calls))
			}
			if diff := cmp.Diff(want, calls[0].req.(*pipelinev1.StreamCompleteRequest).GetCompletion(), protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// failure is the error of a response.
type failure struct {
	Error struct{ Message, Type, Param, Code string }
}

func TestOpenAIRefusals(t *testing.T) {
	b := start(t, gateway.Config{})
	for _, tt := range []struct{ body, param, contains string }{
		{`{"messages": []`, "", "not valid JSON"},
		{`[]`, "", "the body has to be an object"},
		{`{"x": ` + strings.Repeat("[", 20_000), "x" + strings.Repeat("[0]", 66) + "[…", "exceeded max depth"},
		{`{"` + strings.Repeat("x", 10_000) + `": {"a" 1}}`, strings.Repeat("x", 200) + "…", "not valid JSON"},
		{`{"model": 5}`, "model", "`model` has to be a string"},
		{`{"messages": [{"role": "user", "content": "a"}]}`, "model", "you must provide a model"},
		{`{"model": "m"}`, "messages", "is empty"},
		{`{"model": "m", "messages": [{"role": "system", "content": "a"}]}`, "messages", "no text of the user"},
		{`{"model": "m", "messages": [{"role": "user", "content": 5}]}`, "messages[0].content", "a string or an array of parts"},
		{`{"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}`, "messages[0].content[0].text", "has to be a string"},
		{`{"model": "m", "messages": [{"role": "function", "content": "a"}]}`, "messages[0].role", "messages[0].role"},
		{`{"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}]}]}`, "messages[0].content", "data URLs"},
		{`{"model": "m", "messages": [{"role": "user", "content": [{"type": "file"}]}]}`, "messages[0].content", "it may have the type"},
		{`{"model": "m", "messages": [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}`, "messages[0].content", "only the user"},
		{hello("m", `, "temperature": "hot"`), "temperature", "`temperature` has to be a number"},
		{hello("m", `, "max_tokens": -1`), "max_tokens", "a whole number, not -1"},
		{hello("m", `, "stop": 5`), "stop", "a string or an array of strings"},
		{hello("m", `, "n": 2`), "n", "one answer"},
		{hello("m", `, "logprobs": true`), "logprobs", "not offered"},
		{hello("m", `, "modalities": ["text", "audio"]`), "modalities", "text"},
		{hello("m", `, "functions": [{}]`), "functions", "`tools`"},
		{hello("m", `, "web_search_options": {}`), "web_search_options", "MCP server"},
		{hello("m", `, "tools": [{"type": "custom"}]`), "tools[0].type", "function"},
		{hello("m", `, "tool_choice": "sometimes"`), "tool_choice", "sometimes"},
		{hello("m", `, "tool_choice": {"type": "custom"}`), "tool_choice", "has to be"},
		{hello("m", `, "response_format": {"type": "yaml"}`), "response_format.type", "yaml"},
		{hello("m", `, "response_format": {"type": "json_schema"}`), "response_format.json_schema.schema", "JSON Schema"},
		{hello("m", `, "pawl": {"on_approval": "ask"}`), "pawl.on_approval", "deny"},
		{hello("m", `, "pawl": {"mcp_ids": "test"}`), "pawl.mcp_ids", "`pawl.mcp_ids` has to be an array"},
		{hello("m", `, "pawl": {"mcpIds": ["test"]}`), "pawl", "unknown member \"mcpIds\""},
		{hello("agent:a", `, "pawl": {"foo": null}`), "pawl", "unknown member \"foo\""},
		{`{"model": "m", "messages": [{"role": "system", "content": "a"}, {"role": "user"}]}`, "messages[1].content", "`messages[1].content` is empty"},
		{`{"model": "m", "messages": [{"role": "user", "content": ""}]}`, "messages[0].content", "`messages[0].content` is empty"},
		{`{"model": "agent:a", "messages": [{"role": "user", "content": " "}]}`, "messages[0].content", "`messages[0].content` is empty"},
		{hello("agent:a", `, "tools": [{"type": "function", "function": {"name": "f"}}]`), "tools", "choose a model"},
		{hello("agent:a", `, "response_format": {"type": "json_object"}`), "response_format", "choose a model"},
		{`{"model": "agent:a", "messages": [{"role": "assistant", "content": "a"}]}`, "messages", "goal"},
		{`{"model": "agent:a", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}`, "messages[0].content", "goal is text"},
	} {
		t.Run(tt.body[:min(len(tt.body), 100)], func(t *testing.T) {
			resp, body := b.in(t).text("POST", chatPath, tt.body, nil)
			var f failure
			if err := json.Unmarshal([]byte(body), &f); err != nil {
				t.Fatal(err, body)
			}
			if resp.StatusCode != http.StatusBadRequest || f.Error.Type != "invalid_request_error" || f.Error.Param != tt.param || !strings.Contains(f.Error.Message, tt.contains) || len(body) > 1000 {
				t.Errorf("status %d: %s", resp.StatusCode, body)
			}
		})
	}
	if calls := b.journal.take(); len(calls) > 0 {
		t.Errorf("%d calls", len(calls))
	}
}

func TestOpenAIErrors(t *testing.T) {
	b := start(t, gateway.Config{})
	model := func(code codes.Code, class string) error {
		e := errs.New(code, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "what happened")
		if class != "" {
			e = e.With("model_error", class)
		}
		return e
	}
	for name, tt := range map[string]struct {
		err                error
		status             int
		kind, code, params string
		retry              string
	}{
		"no model":    {model(codes.FailedPrecondition, "NOT_FOUND"), 404, "invalid_request_error", "model_not_found", "model", "false"},
		"no reply":    {model(codes.FailedPrecondition, ""), 500, "server_error", "model_error", "", "false"},
		"too long":    {model(codes.InvalidArgument, "TOO_LONG"), 400, "invalid_request_error", "context_length_exceeded", "", "false"},
		"refused":     {model(codes.FailedPrecondition, "REFUSED"), 400, "invalid_request_error", "content_policy_violation", "", "false"},
		"key":         {model(codes.FailedPrecondition, "AUTH"), 500, "server_error", "model_error", "", "false"},
		"overloaded":  {model(codes.Unavailable, "UNAVAILABLE"), 503, "server_error", "model_error", "", "true"},
		"rate":        {errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "what happened"), 429, "rate_limit_error", "rate_limit_exceeded", "", "true"},
		"budget":      {errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED, "what happened"), 429, "insufficient_quota", "insufficient_quota", "", "false"},
		"key of Pawl": {errs.New(codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "what happened"), 401, "invalid_request_error", "invalid_api_key", "", "false"},
		"server":      {errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, "what happened"), 404, "invalid_request_error", "mcp_server_not_found", "", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			check := func(text string) {
				t.Helper()
				var f failure
				if err := json.Unmarshal([]byte(text), &f); err != nil {
					t.Fatal(err, text)
				}
				if e := f.Error; e.Type != tt.kind || e.Code != tt.code || e.Param != tt.params || !strings.Contains(e.Message, "what happened") {
					t.Errorf("%s", text)
				}
			}
			b.completions.StreamCompleteFn = reply(tt.err)
			for _, more := range []string{"", `, "stream": true`} { // no header was sent yet
				resp, body := b.text("POST", chatPath, hello("m", more), nil)
				if check(body); resp.StatusCode != tt.status || resp.Header.Get("X-Should-Retry") != tt.retry {
					t.Errorf("status %d, want %d; X-Should-Retry %q", resp.StatusCode, tt.status, resp.Header.Get("X-Should-Retry"))
				}
			}
			b.completions.StreamCompleteFn = reply(tt.err, textPiece("Hel"))
			_, body := b.text("POST", chatPath, hello("m", `, "stream": true`), nil)
			data := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
			check(strings.TrimPrefix(data[len(data)-1], "data: "))
		})
	}
}

func TestOpenAIPaths(t *testing.T) {
	b := start(t, gateway.Config{})
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/openai/v1/", 404},
		{"POST", "/openai/v1/completions", 404},
		{"GET", "/openai/v1/models/", 404},
		{"POST", "/openai/v1/models", 405},
		{"GET", chatPath, 405},
		{"DELETE", "/openai/v1/models/m", 405},
	} {
		resp, body := b.text(tt.method, tt.path, "", nil)
		var f failure
		if err := json.Unmarshal([]byte(body), &f); err != nil || resp.StatusCode != tt.status || f.Error.Code != "unknown_url" {
			t.Errorf("%s %s: status %d, want %d: %s %v", tt.method, tt.path, resp.StatusCode, tt.status, body, err)
		}
	}
}

// agentEvents is the story of a task with a step.
func agentEvents(last ...*executorv1.ExecutorEvent) func(*executorv1.RunTaskRequest, eventStream) error {
	step := event(1, executorv1.EventType_EVENT_TYPE_STEP_INPUT, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING)
	step.Flow.StepName = "t/echo"
	step.Payload = &executorv1.ExecutorEvent_StepInput{StepInput: &executorv1.StepInput{InputJson: `{"text":"x"}`}}
	return func(_ *executorv1.RunTaskRequest, s eventStream) error {
		for i, e := range append([]*executorv1.ExecutorEvent{step}, last...) {
			e.Seq, e.TaskId = uint64(i+1), taskID
			if err := s.Send(e); err != nil {
				return err
			}
		}
		return nil
	}
}

func textAdd(answer, text string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{Payload: &executorv1.ExecutorEvent_TextAdd{TextAdd: &executorv1.TextAdd{AnswerId: answer, Text: text}}}
}

func TestOpenAIAgent(t *testing.T) {
	wait := &executorv1.ExecutorEvent{
		WaitId: "w-1", Flow: &executorv1.Flow{StepName: "t/write"},
		Payload: &executorv1.ExecutorEvent_StepWaitingForStart{StepWaitingForStart: &executorv1.StepWaitingForStart{InputJson: `{"a":1}`}},
	}
	asks := func(e *executorv1.ExecutorEvent) *executorv1.ExecutorEvent {
		e.WaitId, e.Flow = "w-1", &executorv1.Flow{StepName: "t/write"}
		return e
	}
	unknown := &executorv1.ExecutorEvent{Payload: &executorv1.ExecutorEvent_StepWaitingForStart{StepWaitingForStart: &executorv1.StepWaitingForStart{InputJson: "{}", OutcomeUnknown: true}}}
	params := &executorv1.ExecutorEvent{Payload: &executorv1.ExecutorEvent_StepWaitingForParam{StepWaitingForParam: &executorv1.StepWaitingForParam{Message: "Which city?"}}}
	input := &executorv1.ExecutorEvent{Payload: &executorv1.ExecutorEvent_InputRequired{InputRequired: &executorv1.InputRequired{Message: "Who?"}}}
	page := &executorv1.ExecutorEvent{Payload: &executorv1.ExecutorEvent_InputRequired{InputRequired: &executorv1.InputRequired{Message: "Log in.", Url: "https://a.b"}}}
	success := &executorv1.ExecutorEvent{
		Usage:   &commonv1.Usage{InputTokens: 5, OutputTokens: 2},
		Payload: &executorv1.ExecutorEvent_FlowSuccess{FlowSuccess: &executorv1.FlowSuccess{AnswerId: "a", FullAnswer: "It is done."}},
	}
	notReached := &executorv1.ExecutorEvent{Payload: &executorv1.ExecutorEvent_FlowFailed{FlowFailed: &executorv1.FlowFailed{
		AnswerId: "a", FullAnswer: "It is half done.", Error: &commonv1.ErrorMessage{ErrMsg: "the goal was not reached", Reason: commonv1.ErrorReason_ERROR_REASON_GOAL_NOT_REACHED},
	}}}
	failed := &executorv1.ExecutorEvent{Payload: &executorv1.ExecutorEvent_FlowFailed{FlowFailed: &executorv1.FlowFailed{
		Error: &commonv1.ErrorMessage{ErrMsg: "too many steps", Reason: commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED},
	}}}
	broken := &executorv1.ExecutorEvent{Payload: &executorv1.ExecutorEvent_FlowFailed{FlowFailed: &executorv1.FlowFailed{
		Error: &commonv1.ErrorMessage{ErrMsg: "its provider is out of order", Reason: commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR},
	}}}
	for name, tt := range map[string]struct {
		events  []*executorv1.ExecutorEvent
		want    string // a part of the content, or of the error
		isError bool
	}{
		"answer in pieces":         {[]*executorv1.ExecutorEvent{textAdd("a", "It is "), textAdd("a", "done."), success}, `"content":"It is done."`, false},
		"answer that began again":  {[]*executorv1.ExecutorEvent{textAdd("0", "It"), textAdd("a", "It is done."), success}, `"content":"It\n\nIt is done."`, false},
		"answer without pieces":    {[]*executorv1.ExecutorEvent{success}, `"content":"It is done."`, false},
		"goal not reached":         {[]*executorv1.ExecutorEvent{textAdd("a", "It is half done."), notReached}, `failed: the goal was not reached\n\nIt is half done.","type"`, true},
		"goal not reached, code":   {[]*executorv1.ExecutorEvent{notReached}, `"code":"goal_not_reached"`, true},
		"failure without answer":   {[]*executorv1.ExecutorEvent{failed}, "failed: too many steps", true},
		"failure of the model":     {[]*executorv1.ExecutorEvent{broken}, `"type":"server_error","param":null,"code":"model_error"`, true},
		"approval":                 {[]*executorv1.ExecutorEvent{wait}, `t/write needs approval, with the input`, false},
		"approval, commands":       {[]*executorv1.ExecutorEvent{wait}, "`pawl approve " + taskID + " w-1` or `pawl reject " + taskID + " w-1`", false},
		"unknown outcome":          {[]*executorv1.ExecutorEvent{asks(unknown)}, "not known whether it ran, with the input `{}`.\\n\\nThe task waits for you: answer with `pawl outcome " + taskID + " w-1` and", false},
		"parameters":               {[]*executorv1.ExecutorEvent{asks(params)}, "Which city?\\n\\nThe task waits for you: answer with `pawl params " + taskID + " --wait w-1 NAME=VALUE`,", false},
		"question of a server":     {[]*executorv1.ExecutorEvent{asks(input)}, "Who?\\n\\nThe task waits for you: answer with `pawl input " + taskID + " --wait w-1 NAME=VALUE`", false},
		"page of a server":         {[]*executorv1.ExecutorEvent{asks(page)}, "Log in. https://a.b\\n\\nThe task waits for you: answer with `pawl input " + taskID + " --wait w-1 --done`", false},
		"approval, how to give it": {[]*executorv1.ExecutorEvent{wait}, "/v1/tasks/" + taskID + ":resume with the wait w-1", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, gateway.Config{})
			b.executor.RunTaskFn = agentEvents(tt.events...)
			resp, body := b.text("POST", chatPath, hello("agent:helper", `, "pawl": {"auto_execute": true}`), header{"Idempotency-Key": "k"})
			if !strings.Contains(body, tt.want) || (resp.StatusCode != http.StatusOK) != tt.isError {
				t.Errorf("status %d: %s\nwant %s", resp.StatusCode, body, tt.want)
			}
			if got := resp.Header.Get("Pawl-Task-Id"); got != taskID {
				t.Errorf("Pawl-Task-Id %q", got)
			}
			if tt.isError {
				if resp.Header.Get("X-Should-Retry") != "false" {
					t.Error("a task is not to be created again")
				}
				return
			}
			if want := `"reasoning_content":"Calls t/echo {\"text\":\"x\"}\n"`; !strings.Contains(body, want) {
				t.Errorf("%s\nwant %s", body, want)
			}
			auto := true
			want := &executorv1.RunTaskRequest{Task: &executorv1.CreateTaskRequest{Goal: "Hello", AgentId: "helper", AutoExecute: &auto, RequestId: "k"}}
			if diff := cmp.Diff(want, b.journal.take()[0].req, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOpenAIAgentGoalNotReached: a stream has the answer of a task that did not reach its goal, and then the error; a response has failed, with both.
func TestOpenAIAgentGoalNotReached(t *testing.T) {
	b := start(t, gateway.Config{})
	for _, pieces := range [][]*executorv1.ExecutorEvent{nil, {textAdd("a", "Half "), textAdd("a", "done.")}} {
		b.executor.RunTaskFn = agentEvents(append(pieces, &executorv1.ExecutorEvent{Payload: &executorv1.ExecutorEvent_FlowFailed{FlowFailed: &executorv1.FlowFailed{
			AnswerId: "a", FullAnswer: "Half done.", Error: &commonv1.ErrorMessage{ErrMsg: "the goal was not reached", Reason: commonv1.ErrorReason_ERROR_REASON_GOAL_NOT_REACHED},
		}}})...)
		_, body := b.text("POST", chatPath, hello("agent:helper", `, "stream": true`), nil)
		if at := strings.Index(body, "one."); at < 0 || !strings.Contains(body[at:], `"code":"goal_not_reached"`) || strings.Contains(body, "[DONE]") {
			t.Errorf("%s", body)
		}
		for _, more := range []string{"", `, "stream": true`} {
			_, body = b.text("POST", responsesPath, `{"model": "agent:helper", "input": "Hello"`+more+`}`, nil)
			var r *responseText
			if more == "" {
				r = readResponseText(t, body)
			} else {
				r = assemble(t, responseEvents(t, body, 0))
			}
			if items := r.items(); r.Status != "failed" || r.Error == nil || r.Error.Code != "goal_not_reached" || items[len(items)-1] != `message completed "Half done."` {
				t.Errorf("%s", body)
			}
		}
	}
}

// TestOpenAIAgentRepeated: a repetition would create another task, unless a key names the request.
func TestOpenAIAgentRepeated(t *testing.T) {
	b := start(t, gateway.Config{})
	b.executor.RunTaskFn = func(*executorv1.RunTaskRequest, eventStream) error {
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the executor stops")
	}
	for key, want := range map[string]string{"": "false", "k": "true"} {
		if resp, _ := b.text("POST", chatPath, hello("agent:a", ""), header{"Idempotency-Key": key}); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("X-Should-Retry") != want {
			t.Errorf("key %q: status %d, X-Should-Retry %q, want %q", key, resp.StatusCode, resp.Header.Get("X-Should-Retry"), want)
		}
	}
}

// TestOpenAIAgentConversation: a task has no messages, so those before the last one precede it in the goal.
func TestOpenAIAgentConversation(t *testing.T) {
	b := start(t, gateway.Config{})
	b.executor.RunTaskFn = agentEvents(textAdd("a", "Yes"))
	resp, body := b.text("POST", chatPath, `{"model": "agent:a", "stream": true, "messages": [{"role": "system", "content": "Be brief."},
		{"role": "user", "content": "One?"}, {"role": "assistant", "content": "No."}, {"role": "user", "content": "Two?"}]}`, nil)
	if got := resp.Header.Get("Pawl-Task-Id"); got != taskID || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("Pawl-Task-Id %q, body %s", got, body)
	}
	want := "The conversation so far:\n\nsystem: Be brief.\n\nuser: One?\n\nassistant: No.\n\nThe newest message, which is to be answered:\n\nTwo?"
	if got := b.journal.take()[0].req.(*executorv1.RunTaskRequest).GetTask().GetGoal(); got != want {
		t.Errorf("goal %q", got)
	}
}

type completionStream = grpc.ServerStreamingServer[pipelinev1.StreamCompleteResponse]

func TestOpenAIModels(t *testing.T) {
	b := start(t, gateway.Config{})
	b.planner.ListModelsFn = func(r *plannerv1.ListModelsRequest) (*plannerv1.ListModelsResponse, error) {
		if r.GetName() == "none" {
			return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "there is no model none").WithViolation("name", "there is no model none")
		}
		return &plannerv1.ListModelsResponse{Models: []*plannerv1.Model{{Name: "offline", CanPlan: true}, {Name: "org/gpt", CanGenerate: true}}}, nil
	}
	helper := &executorv1.Agent{Id: "helper", DisplayName: "Helper", CreateTime: timestamp(t, "2026-01-02T03:04:05Z")}
	b.agents.ListAgentsFn = func(r *executorv1.ListAgentsRequest) (*executorv1.ListAgentsResponse, error) {
		if r.GetPageToken() == "" {
			return &executorv1.ListAgentsResponse{NextPageToken: "2"}, nil
		}
		return &executorv1.ListAgentsResponse{Agents: []*executorv1.Agent{helper}}, nil
	}
	b.agents.GetAgentFn = func(r *executorv1.GetAgentRequest) (*executorv1.Agent, error) {
		if r.GetId() != "helper" {
			return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND, "there is no such agent")
		}
		return helper, nil
	}
	const gpt = `{"id":"org/gpt","object":"model","created":0,"owned_by":"pawl"}`
	const agent = `{"id":"agent:helper","object":"model",~,"owned_by":"pawl","name":"Helper"}`
	for path, want := range map[string]string{
		"": `{"object":"list","data":[` + gpt + "," + agent + "]}\n", "/org/gpt": gpt + "\n", "/org%2Fgpt": gpt + "\n", "/agent:helper": agent + "\n",
	} {
		if resp, body := b.text("GET", "/openai/v1/models"+path, "", nil); resp.StatusCode != http.StatusOK || stable(body) != want {
			t.Errorf("%s: status %d: %s\nwant %s", path, resp.StatusCode, body, want)
		}
	}
	for _, path := range []string{"/none", "/offline", "/agent:nobody"} {
		resp, body := b.text("GET", "/openai/v1/models"+path, "", nil)
		var f failure
		if err := json.Unmarshal([]byte(body), &f); err != nil || resp.StatusCode != http.StatusNotFound || f.Error.Code != "model_not_found" || f.Error.Param != "model" {
			t.Errorf("%s: status %d: %s %v", path, resp.StatusCode, body, err)
		}
	}
}
