package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/test/rig"
)

// fakeModel is a model over OpenAI's chat completions that always answers the same.
type fakeModel struct {
	mu     sync.Mutex
	bodies []map[string]any // guarded by mu
}

func (m *fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/chat/completions" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.bodies = append(m.bodies, body)
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []string{
		`{"id":"1","object":"chat.completion.chunk","model":"fake-1","choices":[{"index":0,"delta":{"content":"The wheel "},"finish_reason":null}]}`,
		`{"id":"1","object":"chat.completion.chunk","model":"fake-1","choices":[{"index":0,"delta":{"content":"is held."},"finish_reason":"stop"}]}`,
		`{"id":"1","object":"chat.completion.chunk","model":"fake-1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}`, `[DONE]`,
	} {
		_, _ = io.WriteString(w, "data: "+event+"\n\n")
	}
}

// wantAsked fails unless the model was asked a number of times, each time with a text.
func (m *fakeModel) wantAsked(t *testing.T, times int, text string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.bodies) != times {
		t.Errorf("the model was asked %d times, want %d", len(m.bodies), times)
	}
	for _, body := range m.bodies {
		if raw, err := json.Marshal(body["messages"]); err != nil || !strings.Contains(string(raw), text) {
			t.Errorf("the model was asked %s, %v; want %q", raw, err, text)
		}
	}
}

// startModel starts a model and returns the file that names it.
func startModel(t *testing.T) (*fakeModel, string) {
	t.Helper()
	m := &fakeModel{}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "models.yaml")
	write(t, path, fmt.Appendf(nil, "models:\n- {name: fake, provider: openai, model: fake-1, baseUrl: %q}\n", server.URL+"/v1"))
	return m, path
}

// If an operator allows it, servers of others ask a model through pool and planner, over each transport.
func TestForeignSampling(t *testing.T) {
	bin := rig.NPM(t, ".", ".bin")
	model, file := startModel(t)
	allowed := func(s map[string]any) map[string]any {
		s["sampling"] = map[string]any{"maxTokens": 50}
		return s
	}
	target := rig.InProcess(t, rig.Options{Models: file, Servers: map[string]any{
		"stdio": allowed(map[string]any{"command": filepath.Join(bin, "mcp-server-everything"), "args": []string{"stdio"}}),
		"http":  allowed(map[string]any{"url": everythingOver(t, bin, "streamableHttp") + "/mcp"}),
		"sse":   allowed(map[string]any{"url": everythingOver(t, bin, "sse") + "/sse"}),
	}})
	sampleAll(t, mcppoolv1.NewMcpPoolServiceClient(target.Pool), "stdio", "http", "sse")
	model.wantAsked(t, 3, "Resource trigger-sampling-request context: What holds the wheel?")
}

func sampleAll(t *testing.T, pool mcppoolv1.McpPoolServiceClient, ids ...string) {
	t.Helper()
	for _, id := range ids {
		v := &visitor{pool: pool, id: id}
		o := v.use(t.Context(), use{tool: "trigger-sampling-request", input: `{"prompt":"What holds the wheel?","maxTokens":70}`})
		u := use{wants: []string{"The wheel is held.", `"model": "fake-1"`, `"stopReason": "endTurn"`}}
		u.judge(t, o)
		if got := o.result.GetModelUsage(); got.GetInputTokens() != 9 || got.GetOutputTokens() != 4 || got.GetModelCalls() != 1 {
			t.Errorf("%s: usage %v", id, got)
		}
	}
}

// The Go SDK's server asks with a request of its own up to 2025-11-25, and since 2026-07-28 in its result.
func TestGoSDKSampling(t *testing.T) {
	program := rig.GoEverything(t, ".")
	model, file := startModel(t)
	target := rig.InProcess(t, rig.Options{Models: file, Servers: map[string]any{"gosdk": map[string]any{"command": program, "sampling": true}}})
	v := &visitor{pool: mcppoolv1.NewMcpPoolServiceClient(target.Pool), id: "gosdk"}
	for _, u := range []use{
		{tool: "test_sampling", input: `{"prompt":"hello"}`, wants: []string{"The wheel is held."}},
		{tool: "test_input_required_result_sampling", wants: []string{"The wheel is held."}},
	} {
		t.Run(u.tool, func(t *testing.T) { u.judge(t, v.use(t.Context(), u)) })
	}
	model.wantAsked(t, 2, "")
}

// Four processes: the pool reaches the planner by address, with a key of its own if there are keys.
func TestSamplingAcrossProcesses(t *testing.T) {
	bin := rig.NPM(t, ".", ".bin")
	model, file := startModel(t)
	target := rig.FourProcesses(t, binaries, rig.Options{Models: file, Workspace: workspace(t), Servers: map[string]any{
		"stdio": map[string]any{"command": filepath.Join(bin, "mcp-server-everything"), "args": []string{"stdio"}, "sampling": true},
	}})
	sampleAll(t, mcppoolv1.NewMcpPoolServiceClient(target.Pool), "stdio")
	model.wantAsked(t, 1, "What holds the wheel?")
}
