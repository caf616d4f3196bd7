package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
)

// said is a user's message.
func said(text string) *plannerv1.ModelMessage {
	return &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_USER, Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_Text{Text: text}}}}
}

// ask is a request with the tools of t.
func ask(model, text string) *pipelinev1.CompleteRequest {
	return &pipelinev1.CompleteRequest{Model: model, Messages: []*plannerv1.ModelMessage{said(text)}, McpIds: []string{"t"}}
}

// textIn returns the text of a message.
func textIn(m *plannerv1.ModelMessage) string {
	var b strings.Builder
	for _, p := range m.GetParts() {
		b.WriteString(p.GetText())
	}
	return b.String()
}

// results returns the results of tool calls in messages.
func results(messages []*plannerv1.ModelMessage) (all []string) {
	for _, m := range messages {
		for _, p := range m.GetParts() {
			if r := p.GetToolResult(); r != nil {
				all = append(all, r.GetText())
			}
		}
	}
	return all
}

// completer is a way to ask: over gRPC or REST, streamed or not.
type completer func(t *testing.T, req *pipelinev1.CompleteRequest) (*pipelinev1.CompleteResponse, error)

func whole(c rig.Completions) completer {
	return func(t *testing.T, req *pipelinev1.CompleteRequest) (*pipelinev1.CompleteResponse, error) {
		return c.Complete(t.Context(), req)
	}
}

// streamed checks that the events of a stream tell what its last one holds (C12).
func streamed(c rig.Completions) completer {
	return func(t *testing.T, req *pipelinev1.CompleteRequest) (res *pipelinev1.CompleteResponse, err error) {
		t.Helper()
		var text strings.Builder
		var notes, clients, started, ended int
		err = c.StreamComplete(t.Context(), req, func(e *pipelinev1.StreamCompleteResponse) {
			if res != nil {
				t.Errorf("%v comes after the response", e)
			}
			switch e := e.GetEvent().(type) {
			case *pipelinev1.StreamCompleteResponse_Text:
				text.WriteString(e.Text)
			case *pipelinev1.StreamCompleteResponse_Note:
				notes++
			case *pipelinev1.StreamCompleteResponse_ToolCall:
				clients++
			case *pipelinev1.StreamCompleteResponse_ToolCallStarted:
				started++
			case *pipelinev1.StreamCompleteResponse_ToolCallEnded:
				ended++
			case *pipelinev1.StreamCompleteResponse_Response:
				res = e.Response
			}
		})
		if err != nil {
			return nil, err
		}
		var replies strings.Builder
		calls := 0
		for _, m := range res.GetAddedMessages() {
			replies.WriteString(textIn(m))
		}
		for _, p := range res.GetMessage().GetParts() {
			if p.GetToolCall() != nil {
				calls++
			}
		}
		if text.String() != replies.String() || notes != len(res.GetNotes()) || clients != calls || started != len(res.GetToolCalls()) || ended != started {
			t.Errorf("the stream had the text %q, %d notes, %d client calls, %d and %d calls; the response is %v", text.String(), notes, clients, started, ended, res)
		}
		return res, nil
	}
}

// eachWay runs a test for both providers, over gRPC and REST, streamed and not.
func eachWay(t *testing.T, o rig.Options, names []string, test func(t *testing.T, complete completer, model string)) {
	t.Helper()
	target := rig.InProcess(t, o)
	for protocol, c := range map[string]rig.Completions{"grpc": rig.NewGRPCCompletions(target.Executor), "rest": rig.REST{Base: target.HTTP}} {
		for _, name := range names {
			t.Run(name+"/"+protocol+"/whole", func(t *testing.T) { test(t, whole(c), name) })
			t.Run(name+"/"+protocol+"/streamed", func(t *testing.T) { test(t, streamed(c), name) })
		}
	}
}

func call(name string, arguments any) modeltest.Call {
	raw, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // it is nothing but texts
	}
	return modeltest.Call{Name: name, Arguments: raw}
}

// lastAsked returns the newest message of a user in a model's request.
func lastAsked(r *modeltest.Request) string { return r.Texts[0] }

// playCompletions answers by the first message: what a request asks for is what the model does.
func playCompletions(r *modeltest.Request) *modeltest.Turn {
	switch asked := lastAsked(r); {
	case strings.Contains(asked, "plain"):
		return &modeltest.Turn{Text: "Just text."}
	case strings.Contains(asked, "for ever"):
		for _, t := range r.Tools {
			if strings.HasSuffix(t, "echo") && !strings.Contains(r.System, "Call no more tools") {
				return &modeltest.Turn{Text: fmt.Sprintf("Round %d. ", r.Results+1), Calls: []modeltest.Call{call("echo", map[string]any{"text": fmt.Sprint(r.Results + 1)})}}
			}
		}
		return &modeltest.Turn{Text: fmt.Sprintf("I saw %d results.", r.Results)}
	case r.Results > 0:
		return &modeltest.Turn{Text: "Done."}
	case strings.Contains(asked, "parallel"):
		return &modeltest.Turn{Text: "I look.", Calls: []modeltest.Call{
			call("echo", map[string]any{"text": "one"}), call("fail", map[string]any{"message": "broken"}), call("add", map[string]any{"a": 1, "b": 2}),
			call("add", map[string]any{"a": "x"}), {Name: "t__nothing", Arguments: json.RawMessage(`{}`)},
		}}
	case strings.Contains(asked, "write"):
		return &modeltest.Turn{Text: "I write.", Calls: []modeltest.Call{call("append", map[string]any{"path": asked[strings.Index(asked, "/"):], "line": "x"})}}
	case strings.Contains(asked, "client"):
		return &modeltest.Turn{Calls: []modeltest.Call{call("t__echo", map[string]any{"text": "one"}), call("weather", map[string]any{"city": "Berlin"})}}
	}
	return nil
}

// TestCompletions asks models that call tools natively (C4-C11, C13).
func TestCompletions(t *testing.T) {
	model, file := models(t, &modeltest.Script{Play: playCompletions}, "")
	broken := map[string]any{"down": map[string]any{"command": "/nonexistent/server"}}
	eachWay(t, rig.Options{Models: file, Servers: broken}, modelNames, func(t *testing.T, complete completer, name string) {
		must := func(req *pipelinev1.CompleteRequest) *pipelinev1.CompleteResponse {
			t.Helper()
			res, err := complete(t, req)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		refused := func(req *pipelinev1.CompleteRequest, reason string) {
			t.Helper()
			var r *rig.Refused
			if _, err := complete(t, req); !errors.As(err, &r) || r.Reason != reason {
				t.Errorf("%v, want %s", err, reason)
			}
		}
		// C4: the plain client's call; an unknown server is an error.
		plain := ask(name, "plain")
		plain.McpIds = nil
		if res := must(plain); textIn(res.GetMessage()) != "Just text." || res.GetStopReason() != plannerv1.StopReason_STOP_REASON_END || res.GetModel() != name ||
			res.GetUsage().GetModelCalls() != 1 || res.GetUsage().GetCostNanoUsd() == 0 || len(res.GetNotes()) > 0 {
			t.Errorf("plain: %v", res)
		}
		unknown := ask(name, "plain")
		unknown.McpIds = []string{"nowhere"}
		refused(unknown, "MCP_SERVER_NOT_FOUND")
		refused(&pipelinev1.CompleteRequest{Model: name}, "INVALID_REQUEST")
		// C13: a server that cannot be reached leaves plain chat, with a note.
		down := ask(name, "plain")
		down.McpIds = []string{"down"}
		if res := must(down); textIn(res.GetMessage()) != "Just text." || len(res.GetNotes()) != 1 || res.GetNotes()[0].GetMcpId() != "down" {
			t.Errorf("down: %v", res)
		}
		// C8, C9, C11: all calls of a round end, in their order, also if all but one fail; the model goes on.
		res := must(ask(name, "parallel"))
		if textIn(res.GetMessage()) != "Done." || len(res.GetAddedMessages()) != 3 || res.GetUsage().GetModelCalls() != 2 || res.GetUsage().GetToolCalls() != 3 {
			t.Errorf("parallel: %v", res)
		}
		got := results(res.GetAddedMessages())
		for i, want := range []string{"one", "Error: broken", "3", "Error: ", `Error: there is no tool "t__nothing"`} {
			if i >= len(got) || !strings.HasPrefix(got[i], want) {
				t.Errorf("results %q, want %q at %d", got, want, i)
			}
		}
		reasons := []commonv1.ErrorReason{0, 2, 0, 22, 1}
		for i, c := range res.GetToolCalls() {
			if c.GetError().GetReason() != reasons[i] || c.GetRound() != 1 || c.GetDuration() == nil {
				t.Errorf("call %d: %v", i, c)
			}
		}
		// C10: five rounds, the results of the last one included, then an answer without tools.
		res = must(ask(name, "for ever"))
		if want := "I saw 5 results.\n\n(The limit of tool calls was reached: 5 rounds, 5 calls.)"; textIn(res.GetMessage()) != want || !res.GetLimitReached() || len(res.GetToolCalls()) != 5 {
			t.Errorf("for ever: %v", res)
		}
		two := ask(name, "for ever")
		two.Limits = &pipelinev1.CompletionLimits{MaxRounds: 2}
		if res := must(two); !strings.HasPrefix(textIn(res.GetMessage()), "I saw 2 results.") {
			t.Errorf("two rounds: %v", res)
		}
		one := ask(name, "for ever")
		one.Limits = &pipelinev1.CompletionLimits{MaxToolCalls: 1}
		if res := must(one); !strings.HasPrefix(textIn(res.GetMessage()), "I saw 1 results.") {
			t.Errorf("one call: %v", res)
		}
		poor := ask(name, "for ever")
		poor.Limits = &pipelinev1.CompletionLimits{MaxTokens: 100}
		refused(poor, "BUDGET_EXCEEDED")
		// A tool that a person has to approve does not run.
		path := t.TempDir() + "/written"
		res = must(ask(name, "write "+path))
		if got := results(res.GetAddedMessages()); len(got) != 1 || !strings.HasPrefix(got[0], "Error: the tool t/append needs a person's approval") ||
			res.GetToolCalls()[0].GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED || res.GetToolCalls()[0].GetOutcome() != commonv1.Outcome_OUTCOME_NOT_EXECUTED {
			t.Errorf("write: %v", res)
		}
		// Calls of the client's tools go to the client; the servers' tools wait for them.
		own := ask(name, "client")
		own.Tools = []*plannerv1.ModelTool{{Name: "weather", Description: "Tells the weather.", InputSchemaJson: `{"type":"object","properties":{"city":{"type":"string"}}}`}}
		res = must(own)
		if parts := res.GetMessage().GetParts(); len(parts) != 1 || parts[0].GetToolCall().GetName() != "weather" || res.GetStopReason() != plannerv1.StopReason_STOP_REASON_TOOL_CALLS || len(res.GetToolCalls()) != 0 {
			t.Errorf("client: %v", res)
		}
		own.Messages = append(own.Messages, append(res.GetAddedMessages(), &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_USER, Parts: []*plannerv1.ModelPart{
			{Part: &plannerv1.ModelPart_ToolResult{ToolResult: &plannerv1.ModelToolResult{CallId: res.GetMessage().GetParts()[0].GetToolCall().GetId(), Text: "sunny"}}},
		}})...)
		if res := must(own); textIn(res.GetMessage()) != "Done." {
			t.Errorf("client, second request: %v", res)
		}
	})
	rejected(t, model)
}

// TestCompletionBecomesTask turns a request whose tool needs an approval into a durable task.
func TestCompletionBecomesTask(t *testing.T) {
	_, file := models(t, &modeltest.Script{Play: playCompletions}, "")
	target := rig.InProcess(t, rig.Options{Models: file})
	req := ask("gpt", "write "+t.TempDir()+"/written")
	req.OnApproval = pipelinev1.OnApproval_ON_APPROVAL_TASK
	res, err := streamed(rig.NewGRPCCompletions(target.Executor))(t, req)
	if err != nil || res.GetTaskId() == "" || !strings.Contains(textIn(res.GetMessage()), res.GetTaskId()) || len(res.GetToolCalls()) > 0 {
		t.Fatal(res, err)
	}
	task, err := rig.NewGRPC(target.Executor).Get(t.Context(), res.GetTaskId())
	if err != nil || task.GetGoal() != textIn(req.GetMessages()[0])+"" && !strings.Contains(task.GetGoal(), "write ") || task.GetModel() != "gpt" {
		t.Fatal(task, err)
	}
	if task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR {
		t.Error(task)
	}
}

// playMarkup is a model that writes calls as markup.
func playMarkup(r *modeltest.Request) *modeltest.Turn {
	switch last := r.Texts[len(r.Texts)-1]; {
	case strings.Contains(last, "<function_results>"):
		if strings.Contains(last, `<result name="t__echo">one</result>`) && strings.Contains(last, `<result name="t__add">3</result>`) && strings.Contains(last, `<result name="t__fail">Error: broken</result>`) {
			return &modeltest.Turn{Text: "I saw the results."}
		}
		return &modeltest.Turn{Text: "I saw wrong results: " + last}
	case strings.Contains(r.System, "## t__echo") && len(r.Tools) == 0:
		return &modeltest.Turn{Text: `I look. <function_calls>
<invoke name="t__echo"><parameter name="text">one</parameter></invoke>
<invoke name="t__add"><parameter name="a">1</parameter><parameter name="b">2</parameter></invoke>
<invoke name="t__fail"><parameter name="message">broken</parameter></invoke>
</function_calls>`}
	}
	return &modeltest.Turn{Text: "I was told of no tools."}
}

// TestCompletionsByMarkup asks models that cannot call tools (C6, C7, C9, C12).
func TestCompletionsByMarkup(t *testing.T) {
	model, file := models(t, &modeltest.Script{Play: playMarkup}, ", tools: false")
	eachWay(t, rig.Options{Models: file}, modelNames, func(t *testing.T, complete completer, name string) {
		req := ask(name, "Look")
		req.System = "Be brief."
		res, err := complete(t, req)
		if err != nil || textIn(res.GetMessage()) != "I saw the results." || len(res.GetToolCalls()) != 3 || textIn(res.GetAddedMessages()[0]) != "I look. " {
			t.Fatal(res, err)
		}
		// The conversation goes on with what was added, also the calls.
		req.Messages = append(append(req.GetMessages(), res.GetAddedMessages()...), said("Again"))
		if res, err = complete(t, req); err != nil || textIn(res.GetMessage()) != "I saw the results." {
			t.Error(res, err)
		}
	})
	rejected(t, model)
}

// TestCompletionOfSchema combines tools with a schema for the answer: the model corrects an answer that does not fit, and may call tools before it answers.
func TestCompletionOfSchema(t *testing.T) {
	model, file := models(t, &modeltest.Script{Play: func(r *modeltest.Request) *modeltest.Turn {
		switch {
		case r.Results == 0:
			return &modeltest.Turn{Calls: []modeltest.Call{call("add", map[string]any{"a": 1, "b": 2})}}
		case !strings.Contains(strings.Join(r.Texts[2:], "\n"), "sum\":\"three"):
			return &modeltest.Turn{Text: `{"sum":"three"}`}
		}
		return &modeltest.Turn{Text: `{"sum":3}`}
	}}, "")
	eachWay(t, rig.Options{Models: file}, modelNames, func(t *testing.T, complete completer, name string) {
		req := ask(name, "Add")
		req.OutputSchemaJson = `{"type":"object","required":["sum"],"properties":{"sum":{"type":"number"}},"additionalProperties":false}`
		res, err := complete(t, req)
		if err != nil || textIn(res.GetMessage()) != `{"sum":3}` || len(res.GetToolCalls()) != 1 || res.GetUsage().GetModelCalls() != 3 {
			t.Error(res, err)
		}
	})
	rejected(t, model)
}

// TestCompletionIsInterrupted ends a request while the model writes (C12): the model's connection ends too.
func TestCompletionIsInterrupted(t *testing.T) {
	left := make(chan struct{}, 2)
	model := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Once\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	})
	file := modelsAt(t, model, 8000, "")
	target := rig.InProcess(t, rig.Options{Models: file})
	for protocol, c := range map[string]rig.Completions{"grpc": rig.NewGRPCCompletions(target.Executor), "rest": rig.REST{Base: target.HTTP}} {
		ctx, cancel := context.WithCancel(t.Context())
		err := c.StreamComplete(ctx, ask("gpt", "Tell a story"), func(e *pipelinev1.StreamCompleteResponse) {
			if e.GetText() != "Once" {
				t.Errorf("%s: %v", protocol, e)
			}
			cancel()
		})
		cancel()
		if err == nil {
			t.Errorf("%s: the request went on", protocol)
		}
		<-left
	}
}

// TestCompletionWithoutPlanner kills the planner while the model writes: the error says what happened.
func TestCompletionWithoutPlanner(t *testing.T) {
	ended := make(chan struct{})
	model := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Once\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	})
	target := rig.FourProcesses(t, binaries, rig.Options{Models: modelsAt(t, model, 8000, "")})
	err := rig.REST{Base: target.HTTP}.StreamComplete(t.Context(), ask("gpt", "Tell a story"), func(*pipelinev1.StreamCompleteResponse) {
		target.Processes["planner-svc"].Kill()
	})
	var r *rig.Refused
	if !errors.As(err, &r) || r.Reason != "NETWORK_ERROR" || !strings.Contains(r.Message, "send the request again") {
		t.Error(err)
	}
	<-ended
}
