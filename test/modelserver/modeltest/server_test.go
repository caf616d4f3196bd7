package modeltest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, script string) (*Server, string) {
	t.Helper()
	parsed, err := Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	s := New(parsed, nil)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

// post sends a body to a provider's address and returns the answer.
func post(ctx context.Context, t *testing.T, base, provider, body string) (int, string) {
	t.Helper()
	path := map[string]string{"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}[provider]
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer test")
	r.Header.Set("X-Api-Key", "test")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return response.StatusCode, string(raw) + err.Error()
	}
	return response.StatusCode, string(raw)
}

const (
	chat    = `{"model":"m","messages":[{"role":"user","content":"Hello"}]%s}`
	message = `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"Hello"}]%s}`
)

func TestTurns(t *testing.T) {
	const script = `
turns:
- {when: {contains: Hello, messages: 1}, text: Good day}
- {when: {tools: [read]}, calls: [{name: read, arguments: {path: a}}, {name: none, raw: "{"}]}
- {error: 529}
- {error: 429, retryAfter: 7}
- {always: true, text: "…", stop: length, usage: {input: 7, cached: 3, output: 2}}
`
	tools := map[string]string{
		"openai":    `,"stream":true,"tools":[{"type":"function","function":{"name":"fs-read","parameters":{"type":"object"}}}]`,
		"anthropic": `,"stream":true,"tools":[{"name":"fs-read","input_schema":{"type":"object"}}]`,
	}
	for provider, body := range map[string]string{"openai": chat, "anthropic": message} {
		s, base := start(t, script)
		for i, want := range []string{"200 Good day", "200 fs-read", "529 scripted error", "429 scripted error", "200 …", "200 …"} {
			more := ""
			if i == 1 {
				more = tools[provider]
			}
			status, got := post(t.Context(), t, base, provider, fmt.Sprintf(body, more))
			code, says, _ := strings.Cut(want, " ")
			if fmt.Sprint(status) != code || !strings.Contains(got, says) {
				t.Errorf("%s %d: %d %s, want %s", provider, i, status, got, want)
			}
		}
		if all := s.Requests(); len(all) != 6 || all[1].Turn != 1 || all[1].Tools[0] != "fs-read" || all[2].Status != 529 || all[0].Tokens < 5 {
			t.Errorf("%s: %+v", provider, all)
		}
	}
}

// TestAdapters accepts the requests of Pawl's clients.
func TestAdapters(t *testing.T) {
	files, err := filepath.Glob("../../../planner-svc/internal/llm/testdata/*/request_*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	_, base := start(t, "turns: [{always: true, text: hi}]")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		provider, _, _ := strings.Cut(filepath.Base(filepath.Dir(file)), "_")
		if status, got := post(t.Context(), t, base, provider, string(raw)); status != 200 {
			t.Errorf("%s: %d %s", file, status, got)
		}
	}
}

func TestRules(t *testing.T) {
	const use = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{}}]}`
	const call = `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"n","arguments":"{}"}}]}`
	const tool = `,"tools":[{"name":"n","input_schema":{"type":"object"}}]`
	function := func(f string) string { return fmt.Sprintf(chat, `,"tools":[{"type":"function","function":`+f+`}]`) }
	openai := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	anthropic := func(messages, more string) string {
		return `{"model":"m","max_tokens":10,"messages":[` + messages + `]` + more + `}`
	}
	cached := `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}`
	for _, tt := range []struct{ provider, body, says string }{
		{"openai", fmt.Sprintf(chat, `,"foo":1`), "Unrecognized request argument supplied: foo"},
		{"openai", openai(``), "empty array"},
		{"openai", openai(`{"role":"robot","content":"x"}`), "Supported values"},
		{"openai", openai(`{"role":"user"}`), "got null"},
		{"openai", openai(call + `,{"role":"user","content":"x"}`), "did not have response messages: a"},
		{"openai", openai(call), "did not have response messages: a"},
		{"openai", openai(`{"role":"tool","tool_call_id":"a","content":"x"}`), "must be a response"},
		{"openai", openai(call + `,{"role":"tool","tool_call_id":"b","content":"x"}`), "must be a response"},
		{"openai", openai(`{"role":"assistant","content":[{"type":"image_url"}]}`), "Invalid content type"},
		{"openai", function(`{"name":"a b","parameters":{"type":"object"}}`), "does not match pattern"},
		{"openai", function(`{"name":"a","parameters":{"type":"object","anyOf":[]}}`), "anyOf"},
		{"openai", function(`{"name":"a","parameters":{}}`), "type: "},
		{"openai", function(`{"name":"a","parameters":{"type":"object","properties":{"l":{"type":"array"}}}}`), "missing items"},
		{"openai", function(`{"name":"a","strict":true,"parameters":{"type":"object","properties":{"l":{"type":"string"}},"additionalProperties":false}}`), "Missing 'l'"},
		{"openai", function(`{"name":"a","description":"` + strings.Repeat("x", 1025) + `","parameters":{"type":"object"}}`), "maximum length 1024"},
		{"openai", fmt.Sprintf(chat, `,"tool_choice":"none"`), "only allowed when 'tools'"},
		{"openai", fmt.Sprintf(chat, `,"stop":["1","2","3","4","5"]`), "maximum length 4"},
		{"openai", fmt.Sprintf(chat, `,"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"object"}}}`), "additionalProperties"},
		{"openai", fmt.Sprintf(chat, `,"max_tokens":200000`), "maximum context length is 128000"},
		{"anthropic", fmt.Sprintf(message, `,"foo":1`), "foo: Extra inputs"},
		{"anthropic", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "max_tokens: Field required"},
		{"anthropic", anthropic(`{"role":"assistant","content":"x"}`, ""), "first message"},
		{"anthropic", anthropic(`{"role":"user","content":" "}`, ""), "non-whitespace"},
		{"anthropic", anthropic(`{"role":"user","content":[]}`, ""), "non-empty content"},
		{"anthropic", anthropic(`{"role":"user","content":"x"},`+use, tool), "without `tool_result` blocks"},
		{"anthropic", anthropic(`{"role":"user","content":"x"},`+use+`,{"role":"user","content":"y"}`, tool), "must come before"},
		{"anthropic", anthropic(`{"role":"user","content":"x"},`+use+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`, ""), "must define tools"},
		{"anthropic", anthropic(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`, tool), "unexpected `tool_use_id`"},
		{"anthropic", fmt.Sprintf(message, `,"tools":[{"name":"n","input_schema":{"type":"object","properties":{"größe":{}}}}]`), "Property keys"},
		{"anthropic", fmt.Sprintf(message, `,"tools":[{"name":"n","input_schema":{"type":"object"}},{"name":"n","input_schema":{"type":"object"}}]`), "unique"},
		{"anthropic", fmt.Sprintf(message, `,"tool_choice":{"type":"any"}`), "while providing tools"},
		{"anthropic", anthropic(`{"role":"user","content":[`+strings.Repeat(cached+",", 4)+cached+`]}`, ""), "maximum of 4 blocks"},
		{"anthropic", fmt.Sprintf(message, `,"temperature":1.5`), "temperature"},
		{"anthropic", fmt.Sprintf(message, `,"max_tokens":200000`), "context"},
	} {
		s, base := start(t, "turns: [{always: true, text: hi}]")
		status, got := post(t.Context(), t, base, tt.provider, tt.body)
		if status != 400 || !strings.Contains(s.Requests()[0].Problem, tt.says) {
			t.Errorf("%s: %d %s, want %q", tt.body, status, got, tt.says)
		}
	}
}

// TestCache counts the tokens that a provider would have read from its cache.
func TestCache(t *testing.T) {
	long := strings.Repeat("word ", 2000)
	s, base := start(t, "turns: [{always: true, text: hi}]")
	for _, end := range []string{"one", "two"} {
		post(t.Context(), t, base, "openai", fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`, long, end))
	}
	if r := s.Requests(); r[0].Cached != 0 || r[1].Cached < 2400 || r[1].Cached%128 != 0 || r[1].Cached > r[1].Prefix || r[1].Prefix > r[1].Tokens {
		t.Errorf("%d, %d of %d", r[0].Cached, r[1].Cached, r[1].Tokens)
	}
	for _, mark := range []string{`,"cache_control":{"type":"ephemeral"}`, ``, `,"cache_control":{"type":"ephemeral"}`} {
		post(t.Context(), t, base, "anthropic", fmt.Sprintf(`{"model":"m","max_tokens":9,"system":[{"type":"text","text":%q%s}],"messages":[{"role":"user","content":"x"}]}`, long, mark))
	}
	if r := s.Requests(); r[2].Cached != 0 || r[3].Cached != 0 || r[4].Cached < 2400 {
		t.Errorf("%d, %d, %d of %d", r[2].Cached, r[3].Cached, r[4].Cached, r[4].Tokens)
	}
}

func TestCutAndLeft(t *testing.T) {
	s, base := start(t, `turns: [{text: a long answer in pieces, cut: 2}, {text: a long answer in pieces, pause: 1h}]`)
	if _, got := post(t.Context(), t, base, "openai", fmt.Sprintf(chat, `,"stream":true`)); !strings.Contains(got, "a long a") || !strings.Contains(got, "EOF") {
		t.Errorf("cut: %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	post(ctx, t, base, "openai", fmt.Sprintf(chat, `,"stream":true`))
	if err := s.Wait(t.Context(), func(r []Request) bool { return r[1].Left }); err != nil {
		t.Error(err)
	}
}
