package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/gateway/gateway"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

const responsesPath = "/openai/v1/responses"

// responseText is a response as far as tests look at it.
type responseText struct {
	ID, Status, Model string
	Background        bool
	Error             *struct{ Code, Message string }
	IncompleteDetails *struct{ Reason string } `json:"incomplete_details"`
	Output            []map[string]any
	Usage             *struct {
		TotalTokens int `json:"total_tokens"`
	}
}

// items returns the output, each item in a line.
func (r *responseText) items() []string {
	var all []string
	for _, o := range r.Output {
		line := fmt.Sprint(o["type"], " ", o["status"])
		for _, member := range []string{"server_label", "name", "arguments", "output", "call_id", "approval_request_id"} {
			if v := o[member]; v != nil {
				line += fmt.Sprintf(" %s=%v", member, v)
			}
		}
		for _, member := range []string{"content", "summary"} {
			parts, _ := o[member].([]any)
			for _, p := range parts {
				line += fmt.Sprintf(" %q", p.(map[string]any)["text"])
			}
		}
		if e, ok := o["error"].(map[string]any); ok {
			line += " error=" + e["content"].([]any)[0].(map[string]any)["text"].(string)
		}
		all = append(all, line)
	}
	return all
}

func readResponseText(t *testing.T, body string) *responseText {
	t.Helper()
	r := &responseText{}
	if err := json.Unmarshal([]byte(body), r); err != nil {
		t.Fatal(err, body)
	}
	return r
}

// responseEvents returns the events of a stream, checked: their numbers follow each other from the first one on, and their names are their types.
func responseEvents(t *testing.T, body string, first int) (events []map[string]any) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, _ := strings.Cut(strings.TrimPrefix(frame, "event: "), "\ndata: ")
		var e map[string]any
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err, frame)
		}
		if e["type"] != name || e["sequence_number"] != float64(first+len(events)) {
			t.Errorf("event %d is %v, of the name %s", first+len(events), e, name)
		}
		events = append(events, e)
	}
	return events
}

// assemble builds the output from the events of a stream, as SDKs do, and checks that it is that of the last event.
func assemble(t *testing.T, events []map[string]any) *responseText {
	t.Helper()
	var output []map[string]any
	var texts []string
	for _, e := range events {
		at := -1
		if i, ok := e["output_index"].(float64); ok {
			at = int(i)
		}
		switch e["type"] {
		case "response.output_item.added":
			if at != len(output) {
				t.Errorf("the item %d is added after %d", at, len(output))
			}
			output, texts = append(output, e["item"].(map[string]any)), append(texts, "")
		case "response.output_item.done":
			if output[at]["id"] != e["item"].(map[string]any)["id"] {
				t.Errorf("the item %v is done as %v", output[at], e["item"])
			}
			output[at] = e["item"].(map[string]any)
		case "response.output_text.delta", "response.reasoning_summary_text.delta", "response.function_call_arguments.delta", "response.mcp_call_arguments.delta":
			texts[at] += e["delta"].(string)
		case "response.output_text.done", "response.reasoning_summary_text.done":
			if e["text"] != texts[at] {
				t.Errorf("%v, after %q", e, texts[at])
			}
		case "response.function_call_arguments.done", "response.mcp_call_arguments.done":
			if e["arguments"] != texts[at] {
				t.Errorf("%v, after %q", e, texts[at])
			}
		}
		if id, ok := e["item_id"]; ok && output[at]["id"] != id {
			t.Errorf("%v is about the item %v", e, output[at]["id"])
		}
	}
	last := &responseText{}
	raw, _ := json.Marshal(events[len(events)-1]["response"])
	if err := json.Unmarshal(raw, last); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(last.Output, output); diff != "" {
		t.Errorf("the events do not give the last response (-last +events):\n%s", diff)
	}
	return last
}

var conversationItems = []string{
	`message completed "Let me look."`,
	`mcp_call failed server_label=t name=echo arguments={"text":"x"} error=no`,
	`reasoning <nil> "docs is not reachable\n"`,
	`message completed "Done."`,
	`function_call completed name=save arguments={"a":"<b>"} call_id=call_1`,
	`function_call completed name=save arguments={"a":"<b>"} call_id=call_2`,
}

func TestOpenAIResponse(t *testing.T) {
	b := start(t, gateway.Config{})
	b.completions.StreamCompleteFn = reply(nil, conversation()...)
	resp, body := b.text("POST", responsesPath, `{"model": "m", "input": "Hello", "metadata": {"a": "b"}, "instructions": "Be brief.", "tool_choice": "auto"}`, nil)
	r := readResponseText(t, body)
	if resp.StatusCode != http.StatusOK || r.Status != "completed" || r.Model != "gpt" || r.Usage.TotalTokens != 37 || !strings.HasPrefix(r.ID, "resp_m") {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	if diff := cmp.Diff(conversationItems, r.items()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, want := range []string{`"metadata":{"a":"b"}`, `"instructions":"Be brief."`, `"tool_choice":"auto"`, `"store":false`, `"tools":[]`, `"pawl":{"limitReached":true}`, `"error":null`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}

func TestOpenAIResponseStream(t *testing.T) {
	b := start(t, gateway.Config{})
	b.completions.StreamCompleteFn = reply(nil, conversation()...)
	resp, body := b.text("POST", responsesPath, `{"model": "m", "input": "Hello", "stream": true, "parallel_tool_calls": false}`, nil)
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	events := responseEvents(t, body, 0)
	if diff := cmp.Diff(conversationItems[:5], assemble(t, events).items()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var types []string
	for _, e := range events {
		types = append(types, strings.TrimPrefix(e["type"].(string), "response."))
	}
	message := []string{"output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done"}
	want := slices.Concat([]string{"created", "in_progress"}, message,
		[]string{"output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done", "mcp_call.failed", "output_item.done"},
		[]string{"output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"},
		slices.Delete(slices.Clone(message), 2, 3),
		[]string{"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed"})
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOpenAIResponseEnds: why a reply ended is the response's status, also if an error ends it in the middle.
func TestOpenAIResponseEnds(t *testing.T) {
	overloaded := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "too many").With("model_error", "UNAVAILABLE")
	for reason, want := range map[plannerv1.StopReason]string{
		plannerv1.StopReason_STOP_REASON_MAX_TOKENS: "incomplete max_output_tokens", plannerv1.StopReason_STOP_REASON_REFUSED: "incomplete content_filter",
		plannerv1.StopReason_STOP_REASON_UNSPECIFIED: "completed",
	} {
		b := start(t, gateway.Config{})
		b.completions.StreamCompleteFn = reply(nil, textPiece("Hel"), ended(&pipelinev1.CompleteResponse{StopReason: reason}))
		_, body := b.text("POST", responsesPath, `{"model": "m", "input": "Hello", "stream": true}`, nil)
		r := assemble(t, responseEvents(t, body, 0))
		got := r.Status
		if r.IncompleteDetails != nil {
			got += " " + r.IncompleteDetails.Reason
		}
		if got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
	}
	b := start(t, gateway.Config{})
	b.completions.StreamCompleteFn = reply(overloaded, textPiece("Hel"))
	_, body := b.text("POST", responsesPath, `{"model": "m", "input": "Hello", "stream": true}`, nil)
	if r := assemble(t, responseEvents(t, body, 0)); r.Status != "failed" || r.Error.Code != "model_error" || r.items()[0] != `message incomplete "Hel"` {
		t.Errorf("%+v", r)
	}
	b.completions.StreamCompleteFn = reply(overloaded)
	if resp, body := b.text("POST", responsesPath, `{"model": "m", "input": "Hello"}`, nil); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("X-Should-Retry") != "true" {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
}

// TestOpenAIResponseRequest: a request as programs write it becomes a request of CompletionService.
func TestOpenAIResponseRequest(t *testing.T) {
	data, err := os.ReadFile("testdata/responses.json")
	if err != nil {
		t.Fatal(err)
	}
	var fixture struct{ Request, Want json.RawMessage }
	want := &pipelinev1.CompleteRequest{}
	if err := json.Unmarshal(data, &fixture); err != nil {
		t.Fatal(err)
	} else if err := protojson.Unmarshal(fixture.Want, want); err != nil {
		t.Fatal(err)
	}
	b := start(t, gateway.Config{})
	b.completions.StreamCompleteFn = reply(nil, ended(&pipelinev1.CompleteResponse{}))
	if resp, body := b.text("POST", responsesPath, string(fixture.Request), nil); resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, body)
	}
	if diff := cmp.Diff(want, b.journal.take()[0].req.(*pipelinev1.StreamCompleteRequest).GetCompletion(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// approvalOf is the id of a request for an approval of the task of these tests.
func approvalOf(wait string) string {
	return "mcpr_" + strings.ReplaceAll(taskID, "-", "") + "_" + wait
}

// idOf is the id of a response of the task of these tests.
func idOf(kind string, after int) string {
	return fmt.Sprintf("resp_%s%s_%d", kind, strings.ReplaceAll(taskID, "-", ""), after)
}

func TestOpenAIResponseRefusals(t *testing.T) {
	b := start(t, gateway.Config{})
	ask := func(more string) string { return `{"model": "m", "input": "Hello"` + more + `}` }
	agent := func(more string) string { return `{"model": "agent:a", "input": "Hello"` + more + `}` }
	for _, tt := range []struct{ body, param, contains string }{
		{`{"input": "a"`, "", "not valid JSON"},
		{`{"input": "a"}`, "model", "you must provide a model"},
		{`{"model": "m"}`, "input", "is empty"},
		{`{"model": "m", "input": 5}`, "input", "a string or an array of items"},
		{`{"model": "m", "input": [{"role": "system", "content": "a"}]}`, "input", "no text of the user"},
		{`{"model": "m", "input": [{"role": "user", "content": "a"}, {"role": "boss", "content": "b"}]}`, "input[1].role", "input[1].role"},
		{`{"model": "m", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a.b/c.png"}]}]}`, "input[0].content", "data URLs"},
		{`{"model": "m", "input": [{"type": "item_reference", "id": "a"}]}`, "input[0].type", "`store` is false"},
		{ask(`, "conversation": "conv_1"`), "conversation", "previous_response_id"},
		{ask(`, "prompt": {"id": "p"}`), "prompt", "instructions"},
		{ask(`, "top_logprobs": 2`), "top_logprobs", "not offered"},
		{ask(`, "metadata": {"a": 5}`), "metadata.a", "has to be a string"},
		{ask(`, "text": {"format": {"type": "yaml"}}`), "text.format.type", "yaml"},
		{ask(`, "text": {"format": {"type": "json_schema"}}`), "text.format.schema", "JSON Schema"},
		{ask(`, "tools": [{"type": "web_search"}]`), "tools[0].type", "web_search"},
		{ask(`, "tools": [{"type": "mcp"}]`), "tools[0].server_label", "registered with Pawl"},
		{ask(`, "tools": [{"type": "mcp", "server_label": "d", "server_url": "https://a.b"}]`), "tools[0]", "pawl mcp add"},
		{ask(`, "tools": [{"type": "mcp", "server_label": "d", "authorization": "secret"}]`), "tools[0]", "pawl mcp add"},
		{ask(`, "tools": [{"type": "mcp", "server_label": "d", "require_approval": "always"}]`), "tools[0].require_approval", "background"},
		{ask(`, "tools": [{"type": "mcp", "server_label": "d", "require_approval": {"never": {}}}]`), "tools[0].require_approval", "always"},
		{ask(`, "tools": [{"type": "mcp", "server_label": "d", "allowed_tools": ["a"]}, {"type": "mcp", "server_label": "e"}]`), "tools", "for all MCP servers"},
		{ask(`, "tools": [{"type": "mcp", "server_label": "d", "allowed_tools": {"read_only": true}}]`), "tools[0].allowed_tools", "names of tools"},
		{ask(`, "tool_choice": {"type": "mcp", "server_label": "d"}`), "tool_choice", "has to be"},
		{ask(`, "background": true`), "tools", "needs MCP servers"},
		{ask(`, "background": true, "tools": [{"type": "function", "name": "f"}]`), "tools", "a response in the background calls the tools of MCP servers only"},
		{ask(`, "background": true, "text": {"format": {"type": "json_object"}}`), "text.format", "leave out `text.format`, or leave out `background`"},
		{ask(`, "pawl": {"mcp_ids": "test"}`), "pawl.mcp_ids", "`pawl.mcp_ids` has to be an array"},
		{ask(`, "pawl": {"mcp_servers": ["test"]}`), "pawl", "unknown member \"mcp_servers\""},
		{`{"model": "m", "input": [{"role": "user"}]}`, "input[0].content", "`input[0].content` is empty"},
		{`{"model": "agent:a", "input": ""}`, "input[0].content", "`input[0].content` is empty"},
		{agent(`, "tools": [{"type": "function", "name": "f"}]`), "tools", "choose a model"},
		{agent(`, "tools": [{"type": "mcp", "server_label": "d", "allowed_tools": ["a"]}]`), "tools[0].allowed_tools", "not offered"},
		{`{"input": [{"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true}]}`, "input[0].approval_request_id", "mcp_approval_request"},
		{`{"input": [{"type": "mcp_approval_response", "approval_request_id": "` + approvalOf("") + `", "approve": true}]}`, "input[0].approval_request_id", "mcp_approval_request"},
		{`{"input": [{"type": "mcp_approval_response", "approval_request_id": "` + approvalOf("wait-1") + `"}]}`, "input[0].approve", "as a boolean"},
		{`{"input": [{"type": "mcp_approval_response", "approval_request_id": "` + approvalOf("wait-1") + `", "approve": "yes"}]}`, "input[0].approve", "has to be a boolean"},
	} {
		t.Run(tt.body, func(t *testing.T) {
			resp, body := b.in(t).text("POST", responsesPath, tt.body, nil)
			var f failure
			if err := json.Unmarshal([]byte(body), &f); err != nil {
				t.Fatal(err, body)
			}
			if resp.StatusCode != http.StatusBadRequest || f.Error.Type != "invalid_request_error" || f.Error.Param != tt.param || !strings.Contains(f.Error.Message, tt.contains) {
				t.Errorf("status %d: %s", resp.StatusCode, body)
			}
		})
	}
	if calls := b.journal.take(); len(calls) > 0 {
		t.Errorf("%d calls", len(calls))
	}
}

// approvedTask is the story of a task whose second step needs an approval: it waits after the event 4, and ends with the event 8.
func approvedTask() []*executorv1.ExecutorEvent {
	flow := func(id, tool string) *executorv1.Flow { return &executorv1.Flow{StepId: id, StepName: tool} }
	events := []*executorv1.ExecutorEvent{
		{Flow: flow("s1", "t/echo"), Payload: &executorv1.ExecutorEvent_StepInput{StepInput: &executorv1.StepInput{InputJson: `{"text":"x"}`}}},
		{Flow: flow("s1", "t/echo"), Payload: &executorv1.ExecutorEvent_StepOutput{StepOutput: &executorv1.StepOutput{OutputJson: `{"message":"x"}`}}},
		{Flow: flow("s2", "t/append"), WaitId: "wait-1", Payload: &executorv1.ExecutorEvent_StepWaitingForStart{
			StepWaitingForStart: &executorv1.StepWaitingForStart{InputJson: `{"line":"y"}`}}},
		{Payload: &executorv1.ExecutorEvent_FlowStop{FlowStop: &executorv1.FlowStop{WaitIds: []string{"wait-1"}}}},
		{Flow: flow("s2", "t/append"), WaitId: "wait-1", Payload: &executorv1.ExecutorEvent_StepInput{StepInput: &executorv1.StepInput{InputJson: `{"line":"y"}`}}},
		{Flow: flow("s2", "t/append"), Payload: &executorv1.ExecutorEvent_StepOutput{StepOutput: &executorv1.StepOutput{OutputJson: `{"message":"","structured":[1]}`}}},
		textAdd("a", "It is done."),
		{Usage: &commonv1.Usage{InputTokens: 5, OutputTokens: 2}, Payload: &executorv1.ExecutorEvent_FlowSuccess{FlowSuccess: &executorv1.FlowSuccess{AnswerId: "a", FullAnswer: "It is done."}}},
	}
	for i, e := range events {
		e.Seq, e.TaskId = uint64(i+1), taskID
	}
	return events
}

// serveTask makes the executor serve a task that has had its first events.
func serveTask(b *bench, had int) {
	all := approvedTask()
	task := &executorv1.Task{Id: taskID, AgentId: "helper", Goal: "Do it", Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING, LastSeq: uint64(had)}
	if had == 4 {
		task.Waits = []*executorv1.Wait{{Id: "wait-1"}}
	}
	if had == len(all) {
		task.Status, task.EndTime, task.FullAnswer = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, timestamppb.Now(), "It is done."
	}
	b.executor.GetTaskFn = func(r *executorv1.GetTaskRequest) (*executorv1.Task, error) {
		if r.GetId() != taskID {
			return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, "there is no such task")
		}
		return task, nil
	}
	b.executor.WatchTaskFn = func(r *executorv1.WatchTaskRequest, s eventStream) error {
		events := all
		if r.GetNoFollow() {
			events = all[:had]
		}
		for _, e := range events[r.GetAfterSeq():] {
			if err := s.Send(e); err != nil {
				return err
			}
		}
		return nil
	}
}

var (
	beforeApproval = []string{`mcp_call completed server_label=t name=echo arguments={"text":"x"} output=x`, `mcp_approval_request <nil> server_label=t name=append arguments={"line":"y"}`}
	afterApproval  = []string{
		`mcp_call completed server_label=t name=append arguments={"line":"y"} output={"message":"","structured":[1]} approval_request_id=` + approvalOf("wait-1"),
		`message completed "It is done."`,
	}
)

// TestOpenAIResponseApproval: an agent's response ends at a request for an approval; the answer begins the next response, of the same task.
func TestOpenAIResponseApproval(t *testing.T) {
	b := start(t, gateway.Config{})
	b.executor.RunTaskFn = func(_ *executorv1.RunTaskRequest, s eventStream) error {
		for _, e := range approvedTask()[:4] {
			if err := s.Send(e); err != nil {
				return err
			}
		}
		return nil
	}
	resp, body := b.text("POST", responsesPath, `{"model": "agent:helper", "instructions": "Be brief.", "input": "Do it", "tools": [{"type": "mcp", "server_label": "t", "require_approval": "always"}]}`, nil)
	r := readResponseText(t, body)
	if resp.Header.Get("X-Should-Retry") != "false" || r.ID != idOf("f", 0) || r.Status != "completed" || !cmp.Equal(beforeApproval, r.items()) || r.Output[1]["id"] != approvalOf("wait-1") {
		t.Errorf("%s", body)
	}
	want := &executorv1.CreateTaskRequest{AgentId: "helper", McpIds: []string{"t"}, AutoExecute: proto.Bool(false), Budget: &executorv1.Budget{},
		Goal: "The conversation so far:\n\nsystem: Be brief.\n\nThe newest message, which is to be answered:\n\nDo it"}
	if diff := cmp.Diff(want, b.journal.take()[0].req.(*executorv1.RunTaskRequest).GetTask(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for approve, answer := range map[bool]*executorv1.ResumeTaskRequest{
		true:  {Id: taskID, WaitId: "wait-1", Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}},
		false: {Id: taskID, WaitId: "wait-1", Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: "no"}}},
	} {
		for _, streamed := range []bool{false, true} {
			serveTask(b, 4)
			_, body = b.text("POST", responsesPath, fmt.Sprintf(`{"model": "agent:helper", "stream": %v, "previous_response_id": %q, "input": [{"type": "mcp_approval_response",
				"approval_request_id": %q, "approve": %v, "reason": "no"}]}`, streamed, idOf("f", 0), approvalOf("wait-1"), approve), nil)
			if streamed {
				r = assemble(t, responseEvents(t, body, 0))
			} else {
				r = readResponseText(t, body)
			}
			if r.ID != idOf("f", 4) || r.Status != "completed" || r.Model != "agent:helper" || r.Usage.TotalTokens != 7 || !cmp.Equal(afterApproval, r.items()) {
				t.Errorf("%s", body)
			}
			if diff := cmp.Diff(answer, b.journal.take()[1].req, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
}

// TestOpenAIResponseApprovalRepeated: a repeated answer gives the same response as the first one did, however far the task has got.
func TestOpenAIResponseApprovalRepeated(t *testing.T) {
	const earlier = `{"type": "mcp_approval_response", "approval_request_id": "%s", "approve": true}, {"type": "mcp_call"}, `
	for name, tt := range map[string]struct {
		had    int
		before string // items of earlier responses
	}{
		"the answer takes effect in a moment": {4, ""},
		"the approved call runs":              {5, ""},
		"the task has ended":                  {8, ""},
		"with the conversation so far":        {8, fmt.Sprintf(earlier, approvalOf("wait-0"))},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, gateway.Config{})
			serveTask(b, tt.had)
			for _, more := range []string{"", `, "stream": true`, `, "background": true, "stream": true`} {
				_, body := b.text("POST", responsesPath, fmt.Sprintf(`{"input": [%s{"type": "mcp_approval_response", "approval_request_id": %q, "approve": true}]%s}`,
					tt.before, approvalOf("wait-1"), more), nil)
				var r *responseText
				if strings.Contains(more, "stream") {
					r = assemble(t, responseEvents(t, body, 0))
				} else {
					r = readResponseText(t, body)
				}
				if want := idOf(map[bool]string{false: "f", true: "b"}[r.Background], 4); r.ID != want || r.Status != "completed" || !cmp.Equal(afterApproval, r.items()) {
					t.Errorf("%s: %s", more, body)
				}
			}
		})
	}
}

// TestOpenAIResponseStored: responses that a task answers are read, streamed from any event on, cancelled and deleted.
func TestOpenAIResponseStored(t *testing.T) {
	b := start(t, gateway.Config{})
	get := func(path string) *responseText {
		t.Helper()
		resp, body := b.text("GET", responsesPath+"/"+path, "", nil)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d: %s", path, resp.StatusCode, body)
		}
		return readResponseText(t, body)
	}
	both := slices.Concat(beforeApproval, afterApproval)
	for _, tt := range []struct {
		id     string
		had    int
		status string
		want   []string
	}{
		{idOf("f", 0), 4, "completed", beforeApproval},
		{idOf("f", 0), 8, "completed", beforeApproval},
		{idOf("f", 4), 8, "completed", afterApproval},
		{idOf("b", 0), 1, "in_progress", []string{strings.Replace(strings.TrimSuffix(beforeApproval[0], " output=x"), "completed", "in_progress", 1)}},
		{idOf("b", 0), 4, "in_progress", beforeApproval},
		{idOf("b", 0), 7, "in_progress", append(slices.Clone(both[:3]), `message in_progress "It is done."`)},
		{idOf("b", 0), 8, "completed", both},
	} {
		serveTask(b, tt.had)
		if r := get(tt.id); r.ID != tt.id || r.Status != tt.status || r.Background != strings.HasPrefix(tt.id, "resp_b") || r.Model != "agent:helper" || !cmp.Equal(tt.want, r.items()) {
			t.Errorf("%s after %d events: %+v\n%s", tt.id, tt.had, r, strings.Join(r.items(), "\n"))
		}
	}
	_, body := b.text("GET", responsesPath+"/"+idOf("b", 0)+"?stream=true", "", nil)
	all := responseEvents(t, body, 0)
	assemble(t, all)
	for _, after := range []int{0, 1, 9, len(all) - 2} {
		_, body := b.text("GET", fmt.Sprintf("%s/%s?stream=true&starting_after=%d", responsesPath, idOf("b", 0), after), "", nil)
		if diff := cmp.Diff(all[after+1:], responseEvents(t, body, after+1)); diff != "" {
			t.Errorf("after %d (-want +got):\n%s", after, diff)
		}
	}
	if _, body := b.text("GET", responsesPath+"/"+idOf("f", 0)+"/input_items", "", nil); !strings.Contains(body, `"text":"Do it"`) {
		t.Error(body)
	}
	b.journal.take()
	if resp, body := b.text("POST", responsesPath+"/"+idOf("b", 0)+"/cancel", "{}", nil); resp.StatusCode != http.StatusOK || b.journal.take()[1].method != "/pawl.executor.v1.ExecutorService/CancelTask" {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	serveTask(b, 5)
	task, _ := b.executor.GetTaskFn(&executorv1.GetTaskRequest{Id: taskID})
	task.CancelRequested = true
	incomplete := `mcp_call incomplete server_label=t name=append arguments={"line":"y"} approval_request_id=` + approvalOf("wait-1")
	if r := get(idOf("b", 0)); r.Status != "cancelled" || !cmp.Equal(append(slices.Clone(beforeApproval), incomplete), r.items()) {
		t.Errorf("%s\n%s", r.Status, strings.Join(r.items(), "\n"))
	}
	if _, body := b.text("DELETE", responsesPath+"/"+idOf("b", 0), "", nil); body != `{"id":"`+idOf("b", 0)+`","object":"response","deleted":true}`+"\n" {
		t.Error(body)
	}
}

// TestOpenAIResponseBackground: a response in the background is a task, which the response before can be continued by.
func TestOpenAIResponseBackground(t *testing.T) {
	b := start(t, gateway.Config{})
	serveTask(b, 8)
	b.executor.CreateTaskFn = func(*executorv1.CreateTaskRequest) (*executorv1.Task, error) {
		b.executor.WatchTaskFn = func(*executorv1.WatchTaskRequest, eventStream) error { return nil }
		return &executorv1.Task{Id: taskID, Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT}, nil
	}
	_, body := b.text("POST", responsesPath, `{"model": "m", "input": "And now?", "background": true, "previous_response_id": "`+idOf("f", 4)+`",
		"max_tool_calls": 3, "tools": [{"type": "mcp", "server_label": "t"}]}`, header{"Idempotency-Key": "k"})
	if r := readResponseText(t, body); r.ID != idOf("b", 0) || r.Status != "queued" || !r.Background || len(r.Output) > 0 || r.Model != "m" {
		t.Errorf("%s", body)
	}
	want := &executorv1.CreateTaskRequest{
		Model: "m", McpIds: []string{"t"}, AutoExecute: proto.Bool(true), RequestId: "k", Budget: &executorv1.Budget{MaxToolCalls: 3},
		Goal: "The conversation so far:\n\nuser: Do it\n\nassistant: It is done.\n\nThe newest message, which is to be answered:\n\nAnd now?",
	}
	if diff := cmp.Diff(want, b.journal.take()[2].req, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	serveTask(b, 4)
	task, _ := b.executor.GetTaskFn(&executorv1.GetTaskRequest{Id: taskID})
	approved := `[{"type": "mcp_approval_response", "approval_request_id": "` + approvalOf("wait-1") + `", "approve": true}, {"role": "user", "content": "And now?"}]`
	for _, tt := range []struct {
		input     string
		cancelled bool
		contains  string
	}{{`"And now?"`, false, "not complete"}, {approved, false, "send the answer as the last item"}, {`"And now?"`, true, "is cancelled, but a call of its task still runs"}} {
		task.CancelRequested = tt.cancelled
		_, body := b.text("POST", responsesPath, `{"model": "m", "input": `+tt.input+`, "previous_response_id": "`+idOf("f", 0)+`"}`, nil)
		var f failure
		if err := json.Unmarshal([]byte(body), &f); err != nil || f.Error.Code != "invalid_value" || !strings.Contains(f.Error.Message, tt.contains) {
			t.Errorf("%s, want %s", body, tt.contains)
		}
	}
}

// TestOpenAIResponseCalls: calls that are no calls of a server's tool, and a task that begins queued.
func TestOpenAIResponseCalls(t *testing.T) {
	b := start(t, gateway.Config{})
	b.completions.StreamCompleteFn = reply(nil,
		&pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_ToolCallStarted{ToolCallStarted: &pipelinev1.StartedToolCall{Id: "c", ToolId: "guess", InputJson: `{}`}}},
		&pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_ToolCallEnded{ToolCallEnded: &pipelinev1.CompletedToolCall{Id: "c", ToolId: "guess", Error: &commonv1.ErrorMessage{ErrMsg: "there is no tool"}}}},
		ended(&pipelinev1.CompleteResponse{}))
	_, body := b.text("POST", responsesPath, `{"model": "m", "input": "Hello"}`, nil)
	if diff := cmp.Diff([]string{"mcp_call failed server_label= name=guess arguments={} error=there is no tool"}, readResponseText(t, body).items()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	serveTask(b, 4)
	task, _ := b.executor.GetTaskFn(&executorv1.GetTaskRequest{Id: taskID})
	task.Queued = true
	b.executor.WatchTaskFn = func(_ *executorv1.WatchTaskRequest, s eventStream) error {
		step := approvedTask()[:2]
		step[1].Payload = &executorv1.ExecutorEvent_StepError{StepError: &executorv1.StepError{Error: &commonv1.ErrorMessage{ErrMsg: "text is missing"}, Outcome: commonv1.Outcome_OUTCOME_NOT_EXECUTED}}
		return errors.Join(s.Send(step[0]), s.Send(step[1]))
	}
	_, body = b.text("GET", responsesPath+"/"+idOf("b", 0)+"?stream=true", "", nil)
	events := responseEvents(t, body, 0)
	for i, want := range []string{"queued", "in_progress"} {
		if r := events[i]["response"].(map[string]any); r["status"] != want {
			t.Errorf("%v has the status %v", events[i]["type"], r["status"])
		}
	}
	if diff := cmp.Diff([]string{`mcp_call incomplete server_label=t name=echo arguments={"text":"x"} error=text is missing`}, assemble(t, events).items()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOpenAIResponseUnknown: ids that name no response of the caller are not found, whatever they look like.
func TestOpenAIResponseUnknown(t *testing.T) {
	b := start(t, gateway.Config{})
	serveTask(b, 4)
	hex := strings.ReplaceAll(taskID, "-", "")
	other := strings.Repeat("0", 32)
	for _, id := range []string{
		"x", "resp_", "resp_f", "resp_f" + hex, "resp_x" + hex + "_0", "resp_f" + strings.ToUpper(hex) + "a_0", "resp_f" + hex + "_00", "resp_f" + hex + "_-1", "resp_f" + hex + "_1", "resp_f" + hex + "_3", "resp_f" + hex + "_5",
		"resp_f" + hex + "_99999999999999999999", "resp_f" + other + "_0", "resp_f" + taskID + "_0", "resp_m" + hex,
	} {
		for _, req := range []struct{ method, path, body string }{
			{"GET", responsesPath + "/" + id, ""}, {"GET", responsesPath + "/" + id + "?stream=true", ""}, {"GET", responsesPath + "/" + id + "/input_items", ""},
			{"DELETE", responsesPath + "/" + id, ""}, {"POST", responsesPath + "/" + id + "/cancel", "{}"},
			{"POST", responsesPath, `{"model": "m", "input": "a", "previous_response_id": "` + id + `"}`},
		} {
			resp, body := b.text(req.method, req.path, req.body, nil)
			var f failure
			if err := json.Unmarshal([]byte(body), &f); err != nil || resp.StatusCode != http.StatusNotFound || f.Error.Code != "response_not_found" {
				t.Errorf("%s %s: status %d: %s", req.method, req.path, resp.StatusCode, body)
			}
		}
	}
	for _, c := range b.journal.take() {
		if !strings.HasSuffix(c.method, "/GetTask") && !strings.HasSuffix(c.method, "/WatchTask") {
			t.Errorf("%s was called", c.method)
		}
	}
}
