package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
)

// TestCostOfPlanning measures model calls and prompt tokens by the number of steps, compared with a plain tool-calling loop with the same tools.
// -v prints the table of docs/performance.md.
func TestCostOfPlanning(t *testing.T) {
	t.Log("steps | provider | calls | prompt tokens | cached | prefix of the next | plain loop: calls | prompt tokens | three calls a step: calls | prompt tokens")
	for _, n := range []int{1, 5, 10, 25} {
		model, file := models(t, &modeltest.Script{Play: counting(n)}, "")
		target := rig.InProcess(t, rig.Options{Models: file})
		for _, name := range modelNames {
			before := len(model.Requests())
			done(t, carry(t, rig.NewGRPC(target.Executor), goal(name), nil), n, fmt.Sprintf("Counted to %d.", n))
			asked := rejected(t, model)[before:]
			if len(asked) > n+1 {
				t.Errorf("%d model calls for %d steps", len(asked), n)
			}
			sent, cached, kept, share := 0, 0, 0, 0.0
			for i, r := range asked {
				sent, cached = sent+r.Tokens, cached+r.Cached
				if i > 0 {
					kept++
					share += float64(commonTokens(asked[i-1], r)) / float64(asked[i-1].Tokens)
				}
			}
			share = 100 * share / float64(max(kept, 1))
			if share < 90 {
				t.Errorf("%d steps with %s: %.1f %% of a prompt is the beginning of the next", n, name, share)
			}
			loop := plainLoop(t, asked[0], n)
			t.Logf("%d | %s | %d | %d | %d | %.1f %% | %d | %d | %d | %d", n, name, len(asked), sent, cached, share, loop.calls, loop.tokens, 3*n+3, threeCalls(asked))
		}
	}
}

// commonTokens returns how many tokens of the earlier prompt the later one begins with.
func commonTokens(earlier, later modeltest.Request) int { return min(later.Prefix, earlier.Tokens) }

// threeCalls returns the prompt tokens of a design with three calls for each step, and three at the start and the end, with the same prompts.
func threeCalls(asked []modeltest.Request) int {
	total := 0
	for _, r := range asked {
		total += 3 * r.Tokens
	}
	return total
}

// loopCost is the cost of plainLoop, in model calls and prompt tokens.
type loopCost struct{ calls, tokens int }

// plainLoop runs a loop without plans, risks and fences: the tools as they are, each result appended, until there is no call.
func plainLoop(t *testing.T, first modeltest.Request, n int) loopCost {
	t.Helper()
	var asked struct {
		Tools []map[string]any `json:"tools"`
	}
	if err := json.Unmarshal(first.Body, &asked); err != nil {
		t.Fatal(err)
	}
	model := modeltest.New(&modeltest.Script{Play: func(r *modeltest.Request) *modeltest.Turn {
		if r.Results >= n {
			return &modeltest.Turn{Text: fmt.Sprintf("Counted to %d.", n)}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "echo", Arguments: fmt.Appendf(nil, `{"text":"%d"}`, r.Results+1)}}}
	}}, nil)
	server := httptest.NewServer(model)
	defer server.Close()
	messages := []any{
		map[string]any{"role": "system", "content": "You carry out a task by calling tools. Answer when it is done."},
		map[string]any{"role": "user", "content": "Count and say so"},
	}
	for {
		body, err := json.Marshal(map[string]any{"model": "m", "messages": messages, "tools": plainTools(asked.Tools)})
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/chat/completions", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer test")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Choices []struct {
				Message map[string]any `json:"message"`
			} `json:"choices"`
		}
		err = json.NewDecoder(response.Body).Decode(&answer)
		_ = response.Body.Close() // it was only read
		if err != nil || len(answer.Choices) == 0 {
			t.Fatalf("the plain loop: %v, %s", err, model.Requests()[len(model.Requests())-1].Problem)
		}
		message := answer.Choices[0].Message
		calls, more := message["tool_calls"].([]any)
		if !more {
			break
		}
		messages = append(messages, message, map[string]any{"role": "tool", "tool_call_id": calls[0].(map[string]any)["id"], "content": "1"})
	}
	out := loopCost{}
	for _, r := range rejected(t, model) {
		out.calls, out.tokens = out.calls+1, out.tokens+r.Tokens
	}
	return out
}

// plainTools returns a request's tools of either provider for chat completions, without Pawl's additions.
func plainTools(tools []map[string]any) []any {
	var out []any
	for _, tool := range tools {
		function, ok := tool["function"].(map[string]any)
		if !ok {
			function = map[string]any{"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
		}
		name := fmt.Sprint(function["name"])
		if !slices.Contains([]string{"finish", "read_output", "find_tools"}, name) {
			if properties, ok := function["parameters"].(map[string]any)["properties"].(map[string]any); ok {
				for _, extra := range []string{"pawl_why", "pawl_risk", "pawl_task"} {
					delete(properties, extra)
				}
			}
			out = append(out, map[string]any{"type": "function", "function": function})
		}
	}
	return out
}

// TestLatencyAfterModel measures the time between the model's last byte and the start of the tool call, in one process and in four.
func TestLatencyAfterModel(t *testing.T) {
	const steps = 25
	var mu sync.Mutex
	var began []time.Time
	s := server.NewMCPServer("timed", "1.0.0", server.WithToolCapabilities(false))
	s.AddTool(mcpgo.NewTool("echo", mcpgo.WithDescription("Returns the text."), mcpgo.WithString("text", mcpgo.Required())),
		func(_ context.Context, req mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			mu.Lock()
			began = append(began, time.Now())
			mu.Unlock()
			return mcpgo.NewToolResultText(req.GetString("text", "")), nil
		})
	tool := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(tool.Close)
	model, file := models(t, &modeltest.Script{Play: counting(steps)}, "")
	o := rig.Options{Models: file, Workspace: workspace(t), Servers: map[string]any{
		"timed": map[string]any{"url": tool.URL + "/mcp", "tools": map[string]any{"echo": map[string]any{"effect": "read"}}},
	}}
	for name, start := range map[string]func() *rig.Target{
		"one process":    func() *rig.Target { return rig.InProcess(t, o) },
		"four processes": func() *rig.Target { return rig.FourProcesses(t, binaries, o) },
	} {
		began = nil
		before := len(model.Requests())
		req := goal("gpt")
		req.McpIds = []string{"timed"}
		done(t, carry(t, rig.NewGRPC(start().Executor), req, nil), steps, fmt.Sprintf("Counted to %d.", steps))
		asked := rejected(t, model)[before:]
		waits := make([]time.Duration, 0, steps)
		for i, at := range began {
			waits = append(waits, at.Sub(asked[i].End))
		}
		slices.Sort(waits)
		t.Logf("%s: p50 %v, p90 %v of %d calls", name, waits[len(waits)/2], waits[len(waits)*9/10], len(waits))
		if waits[len(waits)/2] > 500*time.Millisecond {
			t.Errorf("%s: half of the calls start more than %v after the model", name, waits[len(waits)/2])
		}
	}
}
