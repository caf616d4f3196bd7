package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	openai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/identity"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
)

// openAIModel answers what the clients of these tests say.
func openAIModel(r *modeltest.Request) *modeltest.Turn {
	all := strings.Join(r.Texts, "\n")
	last := r.Texts[len(r.Texts)-1]
	switch {
	case strings.Contains(all, "weather") && r.Results == 0:
		city := func(name string) modeltest.Call {
			return modeltest.Call{Name: "get_weather", Arguments: json.RawMessage(`{"city":"` + name + `"}`)}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{city("Bern"), city("Oslo")}}
	case strings.Contains(all, "weather"):
		return &modeltest.Turn{Text: fmt.Sprintf("%d cities.", r.Results)}
	case strings.Contains(all, "recipe"):
		return &modeltest.Turn{JSON: json.RawMessage(`{"dish":"soup"}`)}
	case strings.Contains(all, "Echo one") && r.Results == 0:
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "echo", Arguments: json.RawMessage(`{"text":"one"}`)}}}
	case strings.Contains(all, "Echo one"):
		return &modeltest.Turn{Text: "Echoed."}
	case strings.Contains(all, "Say hello"): // also after a conversation
		return &modeltest.Turn{Text: "Hello."}
	case strings.Contains(all, "Note in ") && r.Results < 1+strings.Count(all, "Twice: "):
		_, path, _ := strings.Cut(all, "Note in ")
		return &modeltest.Turn{Calls: []modeltest.Call{call("append", map[string]any{"path": strings.Fields(path)[0], "line": "noted"})}}
	case strings.Contains(all, "Falter in "):
		_, path, _ := strings.Cut(all, "Falter in ")
		return &modeltest.Turn{Calls: []modeltest.Call{call("falter", map[string]any{"path": strings.Fields(path)[0], "line": "noted"})}}
	case strings.Contains(all, "Note in "):
		return &modeltest.Turn{Text: "Noted."}
	case strings.Contains(last, "Too fast"):
		return &modeltest.Turn{Error: http.StatusTooManyRequests}
	case strings.Contains(last, "long story"):
		return &modeltest.Turn{Text: strings.Repeat("And so on. ", 10_000), Pause: modeltest.Seconds(100 * time.Millisecond)} // it ends when the client has gone
	}
	return &modeltest.Turn{Text: "Hello."}
}

// openAITarget is a Pawl, in one process or in four, with the keys of two users, a scripted model and the agent helper of the first user.
func openAITarget(t *testing.T, start func(testing.TB, rig.Binaries, rig.Options) *rig.Target) (base, key, other string, model *modeltest.Server) {
	t.Helper()
	path, newKey := keys(t)
	user, other := newKey("ann", identity.RoleUser), newKey("ben", identity.RoleUser)
	model, config := models(t, &modeltest.Script{Play: openAIModel}, "")
	target := start(t, binaries, rig.Options{Keys: path, Key: user, ServiceKey: newKey("services", identity.RoleService), Models: config, Flags: []string{"--models", config}})
	agent := &executorv1.CreateAgentRequest{AgentId: "helper", Agent: &executorv1.Agent{Model: "gpt", McpIds: []string{"t"}, Confirm: executorv1.Confirm_CONFIRM_BY_RISK}}
	if _, err := rig.NewGRPC(target.Executor).CreateAgent(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	return target.HTTP + "/openai/v1", user, other, model
}

// The package openai of npm: models, chat, streaming, its own loop over functions, structured output, tools of MCP servers, an agent, responses, errors, and a stream that the client
// aborts, which ends the request to the model.
func TestOpenAINode(t *testing.T) {
	rig.NPM(t, ".", "openai")
	base, key, _, model := openAITarget(t, rig.Binary)
	for _, name := range modelNames {
		t.Run(name, func(t *testing.T) {
			wantOfNode(t, []string{"testdata/openai-client.mjs", base, key, name, filepath.Join(t.TempDir(), "notes")}, fmt.Sprintf(`{
				"models": ["gpt", "claude", "agent:helper"], "model": %q,
				"chat": {"text": "Hello.", "finish": "stop", "usage": true}, "stream": {"text": "Hello.", "finish": "stop", "usage": true},
				"tools": {"text": "2 cities.", "calls": ["Bern", "Oslo"]}, "recipe": {"dish": "soup"},
				"mcp": {"text": "Echoed.", "tools": ["t/echo"]}, "agent": "Hello.",
				"response": {"text": "Hello.", "status": "completed", "usage": true, "metadata": {"a": "b"}},
				"responseStream": {"text": "Echoed.", "items": ["mcp_call completed", "message completed"], "output": "one"},
				"responseTools": {"items": ["function_call completed", "function_call completed"], "text": "2 cities."}, "responseRecipe": {"dish": "soup"},
				"responseAgent": {"waits": ["completed", "mcp_approval_request", "t/append", "noted"], "noted": ["completed", "mcp_call completed", "message completed", "Noted."],
					"approved": true, "again": true, "input": [true], "next": "Hello."},
				"responseBackground": {"created": true, "ended": ["completed", "mcp_call completed", "message completed", "Echoed."], "last": "response.completed", "late": true,
					"waiting": ["in_progress", "mcp_approval_request"], "cancelled": "cancelled"},
				"errors": {"response": "NotFoundError response_not_found", "address": "BadRequestError invalid_value", "key": "AuthenticationError invalid_api_key", "model": "NotFoundError model_not_found", "parameter": "BadRequestError invalid_value",
					"limit": "RateLimitError rate_limit_exceeded", "server": "NotFoundError mcp_server_not_found"}
			}`, name))
		})
	}
	awaitLeft(t, model, len(modelNames))
}

// wantOfNode runs a script of Node and compares the JSON that it writes.
func wantOfNode(t *testing.T, args []string, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, rig.Node(t, "."), args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "PAWL_NODE_MODULES="+filepath.Dir(rig.NPM(t, ".", ""))), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got, wanted any
	if err := errors.Join(json.Unmarshal(out, &got), json.Unmarshal([]byte(want), &wanted)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The AI SDK with @ai-sdk/openai-compatible, against four processes: chat, streaming, its loop over functions, structured output, tools of MCP servers, an agent, errors, and a
// stream that the client aborts.
func TestOpenAIAISDK(t *testing.T) {
	rig.NPM(t, ".", "@ai-sdk/openai-compatible")
	base, key, _, model := openAITarget(t, rig.FourProcesses)
	for _, name := range modelNames {
		t.Run(name, func(t *testing.T) {
			wantOfNode(t, []string{"testdata/ai-sdk-client.mjs", base, key, name}, `{
				"chat": {"text": "Hello.", "finish": "stop", "usage": true}, "stream": {"text": "Hello.", "finish": "stop", "usage": true},
				"tools": {"text": "2 cities.", "steps": ["tool-calls", "stop"], "calls": ["Bern", "Oslo"]}, "recipe": {"dish": "soup"},
				"mcp": {"text": "Echoed.", "reasoning": "Calls t/echo {\"text\":\"one\"}\n"}, "agent": "Hello.", "aborted": true,
				"errors": {"key": "AI_APICallError 401 false invalid_api_key", "model": "AI_APICallError 404 false model_not_found",
					"limit": "AI_APICallError 429 true rate_limit_exceeded"}
			}`)
		})
	}
	awaitLeft(t, model, len(modelNames))
}

// awaitLeft waits until so many requests to the model were left by their client.
func awaitLeft(t *testing.T, model *modeltest.Server, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	err := model.Wait(ctx, func(all []modeltest.Request) bool {
		left := 0
		for _, r := range all {
			if r.Left {
				left++
			}
		}
		return left >= n
	})
	if err != nil {
		t.Error("an aborted stream did not end the request to the model:", err)
	}
}

// The Go package openai-go: chat, streaming with the accumulator, functions, an error, and an aborted stream.
func TestOpenAIGo(t *testing.T) {
	base, key, _, model := openAITarget(t, rig.Binary)
	client := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0))
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	params := func(text string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: "gpt", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
	}
	chat, err := client.Chat.Completions.New(ctx, params("Say hello"))
	if err != nil || chat.Choices[0].Message.Content != "Hello." || chat.Model != "gpt" {
		t.Fatalf("%v %v", chat, err)
	}
	asked := params("What is the weather?")
	asked.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "get_weather", Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
	})}
	asked.StreamOptions.IncludeUsage = param.NewOpt(true)
	acc := openai.ChatCompletionAccumulator{}
	stream := client.Chat.Completions.NewStreaming(ctx, asked)
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatalf("the chunk does not fit: %s", stream.Current().RawJSON())
		}
	}
	if stream.Err() != nil || len(acc.Choices) != 1 || acc.Choices[0].FinishReason != "tool_calls" || acc.Usage.TotalTokens == 0 {
		t.Fatalf("%v %v", acc.ChatCompletion, stream.Err())
	}
	asked.Messages = append(asked.Messages, acc.Choices[0].Message.ToParam())
	for _, call := range acc.Choices[0].Message.ToolCalls {
		asked.Messages = append(asked.Messages, openai.ToolMessage("sunny", call.ID))
	}
	if chat, err = client.Chat.Completions.New(ctx, asked); err != nil || chat.Choices[0].Message.Content != "2 cities." {
		t.Errorf("%v %v", chat, err)
	}
	asked = params("a")
	asked.Model = "nothing"
	var refused *openai.Error
	if _, err := client.Chat.Completions.New(ctx, asked); !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound || refused.Code != "model_not_found" || refused.Param != "model" {
		t.Errorf("%v", err)
	}
	story, abort := context.WithCancel(ctx)
	stream = client.Chat.Completions.NewStreaming(story, params("A long story"))
	for stream.Next() {
		abort()
	}
	abort()
	awaitLeft(t, model, 1)
}

// Responses by the Go package openai-go, against four processes: of a model, of an agent that asks for an approval, in the background; another user has none of them.
func TestOpenAIGoResponses(t *testing.T) {
	base, key, other, _ := openAITarget(t, rig.FourProcesses)
	client := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0)).Responses
	stranger := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(other), option.WithMaxRetries(0)).Responses
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	text := func(s string) responses.ResponseNewParamsInputUnion {
		return responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(s)}
	}
	r, err := client.New(ctx, responses.ResponseNewParams{Model: "gpt", Input: text("Say hello"), Store: param.NewOpt(false)})
	if err != nil || r.OutputText() != "Hello." || r.Status != responses.ResponseStatusCompleted || r.Model != "gpt" || r.Usage.TotalTokens == 0 {
		t.Fatalf("%v %v", r, err)
	}
	followed := func(stream interface {
		Next() bool
		Current() responses.ResponseStreamEventUnion
		Err() error
	}) (last responses.Response, said string, numbers int64) {
		t.Helper()
		for stream.Next() {
			e := stream.Current()
			if e.Type == "response.output_text.delta" {
				said += e.AsResponseOutputTextDelta().Delta
			}
			if e.SequenceNumber != numbers {
				t.Errorf("%s after %d events", e.RawJSON(), numbers)
			}
			numbers, last = numbers+1, e.Response
		}
		if stream.Err() != nil {
			t.Fatal(stream.Err())
		}
		return last, said, numbers
	}
	notes := filepath.Join(t.TempDir(), "notes")
	waits, _, _ := followed(client.NewStreaming(ctx, responses.ResponseNewParams{Model: "agent:helper", Input: text("Note in " + notes)}))
	if waits.Status != responses.ResponseStatusCompleted || len(waits.Output) != 1 || waits.Output[0].Type != "mcp_approval_request" {
		t.Fatalf("%s", waits.RawJSON())
	}
	answer := func(c responses.ResponseService, approve bool) (*responses.Response, error) {
		item := responses.ResponseInputItemParamOfMcpApprovalResponse(waits.Output[0].ID, approve)
		return c.New(ctx, responses.ResponseNewParams{
			Model: "agent:helper", PreviousResponseID: param.NewOpt(waits.ID), Input: responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{item}},
		})
	}
	hidden := func(what string, err error) {
		t.Helper()
		var refused *openai.Error
		if !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound || refused.Code != "response_not_found" {
			t.Errorf("%s by another user: %v", what, err)
		}
	}
	_, err = answer(stranger, true)
	hidden("approving", err)
	_, err = stranger.Get(ctx, waits.ID, responses.ResponseGetParams{})
	hidden("reading", err)
	_, err = stranger.Cancel(ctx, waits.ID)
	hidden("cancelling", err)
	hidden("deleting", stranger.Delete(ctx, waits.ID))
	_, err = stranger.InputItems.List(ctx, waits.ID, responses.InputItemListParams{})
	hidden("reading the input", err)
	_, err = stranger.New(ctx, responses.ResponseNewParams{Model: "gpt", PreviousResponseID: param.NewOpt(waits.ID), Input: text("Say hello")})
	hidden("continuing", err)
	if _, err := os.Stat(notes); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tool ran: %v", err)
	}
	if r, err = answer(client, false); err != nil || r.Status != responses.ResponseStatusCancelled || r.Error.Message == "" {
		t.Errorf("a rejection ends the task: %v %v", r, err)
	}
	if again, err := answer(client, false); err != nil || again.ID != r.ID || again.Status != r.Status {
		t.Errorf("the rejection again: %v %v, want the response %s", again, err, r.ID)
	}
	if _, err := answer(client, true); err == nil {
		t.Error("the approval of what was rejected is accepted")
	}
	background := responses.ResponseNewParams{
		Model: "gpt", Input: text("Echo one"), Background: param.NewOpt(true), Tools: []responses.ToolUnionParam{{OfMcp: &responses.ToolMcpParam{ServerLabel: "t"}}},
	}
	if r, err = client.New(ctx, background); err != nil {
		t.Fatal(err)
	}
	// openai-go sends `stream` as a body, without its type.
	last, said, _ := followed(client.GetStreaming(ctx, r.ID, responses.ResponseGetParams{}, option.WithQuery("stream", "true"), option.WithHeader("Content-Type", "application/json")))
	if r, err = client.Get(ctx, r.ID, responses.ResponseGetParams{}); err != nil || said != "Echoed." || r.OutputText() != said || last.OutputText() != said || r.Output[0].AsMcpCall().Output != "one" {
		t.Errorf("%s %q %v", r.RawJSON(), said, err)
	}
	var refused *openai.Error
	background.Tools[0].OfMcp.ServerLabel = "nothing"
	if _, err = client.New(ctx, background); !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound || refused.Code != "mcp_server_not_found" {
		t.Errorf("%v", err)
	}
}

// A task that asks for two approvals: each answer gives the same response when it is sent again, also after the task has gone on and has ended. A task whose approved call has an unknown
// outcome says so each time.
func TestOpenAIApprovalsRepeated(t *testing.T) {
	base, key, _, _ := openAITarget(t, rig.Binary)
	client := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0)).Responses
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	ask := func(input responses.ResponseNewParamsInputUnion) *responses.Response {
		t.Helper()
		r, err := client.New(ctx, responses.ResponseNewParams{Model: "agent:helper", Input: input})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	start := func(goal string) *responses.Response {
		t.Helper()
		return ask(responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(goal + filepath.Join(t.TempDir(), "notes"))})
	}
	approve := func(request string) *responses.Response {
		t.Helper()
		item := responses.ResponseInputItemParamOfMcpApprovalResponse(request, true)
		return ask(responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{item}})
	}
	r := start("Twice: Note in ")
	var approvals, ids []string // ids of the requests for approvals, and of the responses to the answers
	for range 2 {
		last := r.Output[len(r.Output)-1]
		if last.Type != "mcp_approval_request" {
			t.Fatalf("%s", r.RawJSON())
		}
		approvals = append(approvals, last.ID)
		for i, request := range approvals {
			r = approve(request)
			if i == len(ids) {
				ids = append(ids, r.ID)
			}
			if r.ID != ids[i] || r.Status != responses.ResponseStatusCompleted || len(r.Output) != 2 || r.Output[0].AsMcpCall().Status != "completed" {
				t.Errorf("the answer %d after %d: %s", i, len(approvals), r.RawJSON())
			}
		}
	}
	if r.OutputText() != "Noted." {
		t.Errorf("%s", r.RawJSON())
	}
	request := start("Falter in ").Output[0].ID
	for range 2 {
		if r = approve(request); r.Status != responses.ResponseStatusCompleted || !strings.Contains(r.OutputText(), "`pawl outcome ") {
			t.Errorf("%s", r.RawJSON())
		}
	}
}

// Hostile requests to the OpenAI API, against four processes: ids of another user and forged ones, broken and huge bodies. Each is refused in OpenAI's form, none reaches the model or
// starts a task, and members that are not known change nothing.
func TestOpenAIHostile(t *testing.T) {
	base, ann, ben, model := openAITarget(t, rig.FourProcesses)
	post := func(key, path, body string) (status int, answer string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(raw)
	}
	notes := filepath.Join(t.TempDir(), "notes")
	_, body := post(ann, "/responses", `{"model": "agent:helper", "input": "Note in `+notes+`"}`)
	var waits struct {
		ID     string
		Output []struct{ ID string }
		Pawl   struct{ TaskID string }
	}
	if err := json.Unmarshal([]byte(body), &waits); err != nil || len(waits.Output) != 1 {
		t.Fatal(body, err)
	}
	asked := len(model.Requests())
	huge := strings.Repeat("x", 10<<20)
	calls := func(arguments string) string {
		return `{"model": "gpt", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "` +
			arguments + `"}}]}]}`
	}
	approve := func(id string) string {
		return `{"model": "agent:helper", "input": [{"type": "mcp_approval_response", "approval_request_id": "` + id + `", "approve": true}]}`
	}
	next := func(id string) string { return `{"model": "gpt", "input": "a", "previous_response_id": "` + id + `"}` }
	task := strings.ReplaceAll(waits.Pawl.TaskID, "-", "")
	for name, tt := range map[string]struct {
		key, path, body string
		status          int
		code            string
	}{
		"broken JSON":                    {ann, "/chat/completions", `{"model": "gpt"`, 400, "invalid_value"},
		"members twice":                  {ann, "/chat/completions", `{"model": "gpt", "model": "gpt", "messages": []}`, 400, "invalid_value"},
		"deep JSON":                      {ann, "/chat/completions", `{"x": ` + strings.Repeat("[", 1_000_000), 400, "invalid_value"},
		"no UTF-8":                       {ann, "/responses", "{\"model\": \"gpt\", \"input\": \"\xff\"}", 400, "invalid_value"},
		"10 MB of arguments":             {ann, "/chat/completions", calls(huge), 413, "too_large"},
		"10 MB of arguments, response":   {ann, "/responses", `{"model": "gpt", "input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "` + huge + `"}]}`, 413, "too_large"},
		"10 MB of an id":                 {ann, "/responses", next(huge), 413, "too_large"},
		"another user's response":        {ben, "/responses", next(waits.ID), 404, "response_not_found"},
		"another user's approval":        {ben, "/responses", approve(waits.Output[0].ID), 404, "response_not_found"},
		"another user's agent":           {ben, "/responses", `{"model": "agent:helper", "input": "a"}`, 404, "model_not_found"},
		"another user's cancel":          {ben, "/responses/" + waits.ID + "/cancel", "{}", 404, "response_not_found"},
		"a response that waits":          {ann, "/responses", next(waits.ID), 400, "invalid_value"},
		"a forged response":              {ann, "/responses", next("resp_f" + strings.Repeat("0", 32) + "_0"), 404, "response_not_found"},
		"a forged event of a response":   {ann, "/responses", next("resp_f" + task + "_999"), 404, "response_not_found"},
		"a forged approval":              {ann, "/responses", approve("mcpr_" + task + "_forged"), 409, "wait_not_open"},
		"an approval that is no id":      {ann, "/responses", approve("mcpr_x"), 400, "invalid_value"},
		"an approval of a forged task":   {ann, "/responses", approve("mcpr_" + strings.Repeat("0", 32) + "_w"), 404, "response_not_found"},
		"an item that is not stored":     {ann, "/responses", `{"model": "gpt", "input": [{"type": "item_reference", "id": "msg_1"}]}`, 400, "invalid_value"},
		"a task without an MCP server":   {ann, "/responses", `{"model": "gpt", "input": "a", "background": true}`, 400, "invalid_value"},
		"a number of tokens below zero":  {ann, "/responses", `{"model": "gpt", "input": "a", "max_output_tokens": -1}`, 400, "invalid_value"},
		"more tool calls than there are": {ann, "/responses", `{"model": "gpt", "input": "a", "max_tool_calls": 99999999999}`, 400, "invalid_value"},
	} {
		status, body := post(tt.key, tt.path, tt.body)
		var f struct {
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal([]byte(body), &f); err != nil || status != tt.status || f.Error.Code != tt.code || f.Error.Type != "invalid_request_error" || f.Error.Message == "" {
			t.Errorf("%s: status %d: %.500s, want %d %s", name, status, body, tt.status, tt.code)
		}
		if len(body) > 2000 {
			t.Errorf("%s: an error of %d bytes", name, len(body))
		}
	}
	if n := len(model.Requests()); n != asked {
		t.Errorf("the model got %d requests", n-asked)
	}
	if _, err := os.Stat(notes); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tool ran: %v", err)
	}
	for path, member := range map[string]string{"/chat/completions": `"messages": [{"role": "user", "content": [{"type": "text", "text": "Say hello", "x": {}}], "x": 1}]`, "/responses": `"input": "Say hello"`} {
		if status, body := post(ann, path, `{"model": "gpt", "x": [[{"y": null}]], "service_tier": "auto", "prediction": {"type": "content", "content": "a"}, `+member+`}`); status != http.StatusOK || !strings.Contains(body, "Hello.") {
			t.Errorf("%s with members that are not known: status %d: %s", path, status, body)
		}
	}
}
