package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	case strings.Contains(last, "Too fast"):
		return &modeltest.Turn{Error: http.StatusTooManyRequests}
	case strings.Contains(last, "long story"):
		return &modeltest.Turn{Text: strings.Repeat("And so on. ", 10_000), Pause: modeltest.Seconds(100 * time.Millisecond)} // it ends when the client has gone
	}
	return &modeltest.Turn{Text: "Hello."}
}

// openAITarget is a server with keys, a scripted model and the agent helper.
func openAITarget(t *testing.T) (base, key string, model *modeltest.Server) {
	t.Helper()
	path, newKey := keys(t)
	user := newKey("ann", identity.RoleUser)
	model, config := models(t, &modeltest.Script{Play: openAIModel}, "")
	target := rig.Binary(t, binaries, rig.Options{Keys: path, Key: user, Flags: []string{"--models", config}})
	agent := &executorv1.CreateAgentRequest{AgentId: "helper", Agent: &executorv1.Agent{Model: "gpt", McpIds: []string{"t"}}}
	if _, err := rig.NewGRPC(target.Executor).CreateAgent(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	return target.HTTP + "/openai/v1", user, model
}

// The package openai of npm: models, chat, streaming, its own loop over functions, structured output, tools of MCP servers, an agent, errors, and a stream that the client
// aborts, which ends the request to the model.
func TestOpenAINode(t *testing.T) {
	modules := filepath.Dir(filepath.Dir(rig.NPM(t, ".", "openai")))
	base, key, model := openAITarget(t)
	for _, name := range modelNames {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
			defer cancel()
			cmd := exec.CommandContext(ctx, "node", "testdata/openai-client.mjs", base, key, name)
			cmd.Env = append(os.Environ(), "PAWL_NODE_MODULES="+modules)
			cmd.Stderr = t.Output()
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var got, want any
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(fmt.Appendf(nil, `{
				"models": ["gpt", "claude", "agent:helper"], "model": %q,
				"chat": {"text": "Hello.", "finish": "stop", "usage": true}, "stream": {"text": "Hello.", "finish": "stop", "usage": true},
				"tools": {"text": "2 cities.", "calls": ["Bern", "Oslo"]}, "recipe": {"dish": "soup"},
				"mcp": {"text": "Echoed.", "tools": ["t/echo"]}, "agent": "Hello.",
				"errors": {"key": "AuthenticationError invalid_api_key", "model": "NotFoundError model_not_found", "parameter": "BadRequestError invalid_value",
					"limit": "RateLimitError rate_limit_exceeded", "server": "NotFoundError mcp_server_not_found"}
			}`, name), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
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
	base, key, model := openAITarget(t)
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
