package models

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/llm"
)

// environment is a planner's variables.
type environment map[string]string

func (e environment) get(name string) string { return e[name] }

// unlisted is a book without a file.
func unlisted(env environment) *Book {
	b, _ := Open("", nil, env.get)
	return b
}

func open(t *testing.T, text string, env environment) (*Book, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Open(path, []string{"offline"}, env.get)
}

const fullFile = `
models:
- name: fast
  provider: openai
  model: gpt-5-mini
  key: env:KEY
  organization: org-1
  headers: {X-Team: blue, X-Token: "env:TOKEN"}
  price: {input: 0.25, output: 2, cachedInput: 0.025}
  fallback: careful
- name: careful
  provider: anthropic
  model: claude-sonnet-4-5
  key: env:KEY
  maxTokens: 9000
  contextWindow: 150000
  price: {input: 3, output: 15, cachedInput: 0.3}
  fallback: local
- name: local
  provider: ollama
  baseUrl: http://127.0.0.1:11434/v1
  model: qwen3
  tools: false
  schema: false
  images: false
`

func TestFile(t *testing.T) {
	b, err := open(t, fullFile, environment{"KEY": "secret-key", "TOKEN": "secret-token"})
	if err != nil {
		t.Fatal(err)
	}
	var infos []llm.Info
	for _, m := range b.List() {
		infos = append(infos, m.Info())
	}
	want := []llm.Info{
		{Name: "fast", Description: "openai gpt-5-mini", Provider: "openai", ProviderModel: "gpt-5-mini", Tools: true, Schema: true, Images: true,
			ContextWindow: 272_000, MaxTokens: 16_384, Price: &llm.Price{Input: 0.25, Output: 2, CachedInput: 0.025, CacheWrite: 0.25}},
		{Name: "careful", Description: "anthropic claude-sonnet-4-5", Provider: "anthropic", ProviderModel: "claude-sonnet-4-5", Tools: true, Schema: true, Images: true,
			ContextWindow: 150_000, MaxTokens: 9000, Price: &llm.Price{Input: 3, Output: 15, CachedInput: 0.3, CacheWrite: 3.75}},
		{Name: "local", Description: "ollama qwen3 at 127.0.0.1:11434", Provider: "ollama", ProviderModel: "qwen3", MaxTokens: 4096},
	}
	if diff := cmp.Diff(want, infos); diff != "" {
		t.Error(diff)
	}
	if m, err := b.Find("careful"); err != nil || m.Fallback != b.find("local") {
		t.Errorf("%v %v", m, err)
	}
	for name, says := range map[string]string{"carefil": "did you mean careful?", "x": "the configured models are fast, careful, local", "openai:gpt-5": "in the file of --models"} {
		if _, err := b.Find(name); err == nil || errs.From(err).Metadata["model_error"] != "NOT_FOUND" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.Add("openai:gpt-4.1"); err == nil {
		t.Error("added without a key")
	}
}

// TestFileProblems checks what the planner's own tests do not: prices, fallbacks, headers and windows.
func TestFileProblems(t *testing.T) {
	for _, tt := range []struct{ entry, says string }{
		{"price: {input: 1}", "`price` needs"},
		{"price: {input: -1, output: 1}", "between 0"},
		{"price: {input: .nan, output: 1}", "between 0"},
		{"fallback: b", `there is no model "b"`},
		{"fallback: a", "leads back"},
		{"headers: {Host: x}", `"Host" is not a header name, or cannot be set`},
		{`headers: {"a b": x}`, "not a header name"},
		{`headers: {X-A: "env:NONE"}`, "the header X-A refers to the environment variable NONE"},
		{`key: "file:none"`, "cannot be read"},
		{"contextWindow: 100, maxTokens: 100", "larger than"},
		{"contextWindow: -1", "`contextWindow`"},
		{"organization: o, provider: ollama", "`organization`"},
	} {
		text := "models:\n- {name: a, model: m, baseUrl: \"http://127.0.0.1:1\", " + tt.entry
		if !strings.Contains(tt.entry, "provider") {
			text += ", provider: openai"
		}
		if _, err := open(t, text+"}\n", nil); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.entry, err)
		}
	}
}

// TestProviderNames names models without a file.
func TestProviderNames(t *testing.T) {
	all := environment{"OPENAI_API_KEY": "k1", "OPENAI_ORG_ID": "o", "ANTHROPIC_API_KEY": "k2", "ANTHROPIC_BASE_URL": "https://proxy.example"}
	for _, tt := range []struct {
		name string
		env  environment
		want string // a part of the description, or of the error
	}{
		{"openai:gpt-5-mini", all, "openai gpt-5-mini"},
		{"anthropic:claude-sonnet-4-5", all, "at proxy.example"},
		{"ollama:qwen3:8b", nil, "ollama qwen3:8b at 127.0.0.1:11434"},
		{"ollama:qwen3", environment{"OLLAMA_HOST": "0.0.0.0:8000"}, "at 127.0.0.1:8000"},
		{"ollama:qwen3", environment{"OLLAMA_HOST": "https://gpu.example"}, "at gpu.example:443"},
		{"ollama:qwen3", environment{"OLLAMA_HOST": "gpu.example"}, "at gpu.example:11434"},
		{"ollama:qwen3", environment{"OLLAMA_HOST": ":9000", "OLLAMA_CONTEXT_LENGTH": "4096"}, "at 127.0.0.1:9000"},
		{"ollama:qwen3", environment{"OLLAMA_HOST": "http://[fe80::1%25eth0]"}, "at [fe80::1%eth0]:80"},
		{"openai:qwen", environment{"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}, "at 127.0.0.1:8000"},
		{"openai:gpt-5", nil, "it needs the environment variable OPENAI_API_KEY"},
		{"anthropic:claude", environment{"OPENAI_API_KEY": "k"}, "it needs the environment variable ANTHROPIC_API_KEY"},
		{"ollama:qwen3", environment{"OLLAMA_HOST": "ftp://x"}, "OLLAMA_HOST is not an http or https address"},
		{"openai:gpt-5", environment{"OPENAI_BASE_URL": "127.0.0.1:8000"}, "OPENAI_BASE_URL must be an http or https address"},
		{"anthropic:claude", environment{"ANTHROPIC_BASE_URL": "localhost"}, "ANTHROPIC_BASE_URL must be"},
		{"openai:", all, "name one as openai:MODEL"},
		{"gpt-5", all, "name one as openai:MODEL"},
		{"openai:a b", all, "`name` must be"},
	} {
		m, err := unlisted(tt.env).Find(tt.name)
		got := fmt.Sprint(err)
		if err == nil {
			got = m.Info().Description
		}
		if !strings.Contains(got, tt.want) || err == nil && m.Info().Name != tt.name {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestDefaults asks no model that only a user named: Choose without a name takes the operator's.
func TestDefaults(t *testing.T) {
	b := unlisted(environment{"OPENAI_API_KEY": "k"})
	named, err := b.Find("openai:gpt-5")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.Find("openai:gpt-5"); err != nil || again != named {
		t.Errorf("not the same: %v", err)
	}
	if _, err := b.Choose("", []string{"gpt"}); err == nil || !strings.Contains(err.Error(), "no language model is configured") {
		t.Errorf("%v", err)
	}
	if err := b.Add("openai:gpt-5-mini"); err != nil {
		t.Fatal(err)
	}
	if m, err := b.Choose("", nil); err != nil || m.Info().Name != "openai:gpt-5-mini" || len(b.List()) != 1 {
		t.Errorf("%v %v", m, err)
	}
}

// TestKeyAdvice names what holds a rejected key.
func TestKeyAdvice(t *testing.T) {
	for want, e := range map[string]*entry{
		"the environment variable OPENAI_API_KEY where":      {Name: "openai:m", Provider: "openai", Model: "m", Key: "env:OPENAI_API_KEY"},
		"the environment variable TEAM_KEY where":            {Name: "a", Provider: "anthropic", Model: "m", Key: "env:TEAM_KEY"},
		"the file /run/key that `key` names":                 {Name: "a", Provider: "anthropic", Model: "m", Key: "file:/run/key"},
		"set the environment variable ANTHROPIC_API_KEY":     {Name: "anthropic:m", Provider: "anthropic", Model: "m"},
		"an operator has to set `key` in the file of models": {Name: "a", Provider: "openai", Model: "m"},
	} {
		if got := e.keyAdvice(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The address of Ollama keeps the path of a proxy.
func TestOllamaURL(t *testing.T) {
	for host, want := range map[string]string{
		"": "http://127.0.0.1:11434/v1", "gpu": "http://gpu:11434/v1", "https://gpu.example/": "https://gpu.example:443/v1",
		"https://proxy.example/ollama": "https://proxy.example:443/ollama/v1", "gpu:80/a b/?q=1": "http://gpu:80/a%20b/v1",
		"http://gpu/ollama/v1/": "http://gpu:80/ollama/v1",
	} {
		if got, err := ollamaURL(host); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", host, got, err, want)
		}
	}
}

// TestOllamaInFile reaches Ollama on this machine if an entry names no address.
func TestOllamaInFile(t *testing.T) {
	b, err := open(t, "models: [{name: a, provider: ollama, model: qwen3}]", nil)
	if err != nil || b.List()[0].Info().Description != "ollama qwen3 at 127.0.0.1:11434" {
		t.Errorf("%v", err)
	}
}

func TestFallback(t *testing.T) {
	for _, tt := range []struct {
		first, second func() *http.Response
		name          string // of the model that answered
		class         llm.Class
		requests      uint32
		micros        llm.Money // what it cost, in millionths of a dollar
	}{
		{good, good, "a", "", 1, 10},
		{status(529), good, "b", "", 2, 20},
		{status(429), good, "b", "", 2, 20},
		{status(429), status(529), "b", llm.Unavailable, 2, 0},
		{status(401), good, "a", llm.Auth, 1, 0},
		{half, good, "a", llm.Unavailable, 1, 10},
	} {
		b := bookOf(t, func(r *http.Request) *http.Response {
			return map[string]func() *http.Response{"a": tt.first, "b": tt.second}[r.URL.Host]()
		}, "a, price: {input: 1, output: 0}, fallback: b", "b, price: {input: 2, output: 0}")
		reply, err := b.List()[0].Generate(t.Context(), &llm.Request{}, func(llm.Delta) error { return nil })
		if reply.Name != tt.name || llm.ClassOf(err) != tt.class || reply.Usage.Requests != tt.requests || reply.Usage.Cost != tt.micros*1e6 {
			t.Errorf("%+v: %+v, %v", tt, reply, err)
		}
	}
}

func good() *http.Response { return says("yes") }

func status(code int) func() *http.Response {
	return func() *http.Response { return fails(code) }
}

// half is an answer that breaks off with an error.
func half() *http.Response {
	return stream(`data: {"choices":[{"delta":{"content":"half"}}],"usage":{"prompt_tokens":10}}` + "\n\n" + `data: {"error":{"type":"server_error"}}`)
}

// TestFallbackWithinBudget gives the fallback the requests that are left, and does not ask it without any.
func TestFallbackWithinBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for most, want := range map[uint32]string{1: "a", 3: "aaa", 4: "aaab", 5: "aaabb", 7: "aaabbb", 0: "aaabbb"} {
			asked := ""
			b := bookOf(t, func(r *http.Request) *http.Response {
				asked += r.URL.Host
				return fails(529)
			}, "a, fallback: b", "b")
			for _, m := range b.List() {
				m.Retries = 2
			}
			if reply, err := b.List()[0].Generate(t.Context(), &llm.Request{MaxRequests: most}, nil); asked != want || reply.Usage.Requests != uint32(len(want)) {
				t.Errorf("%d requests: %s are asked, want %s; %v", most, asked, want, err)
			}
		}
	})
}

// TestFallbackWithinPrice does not ask a fallback that may cost more than was reserved.
func TestFallbackWithinPrice(t *testing.T) {
	reserved := &llm.Price{Input: 1, Output: 2, CachedInput: 1, CacheWrite: 1}
	for _, tt := range []struct {
		price string
		most  *llm.Price
		want  string
	}{
		{"", nil, "b"}, {"", reserved, "a"}, {", price: {input: 1, output: 2}", reserved, "b"}, {", price: {input: 1, output: 3}", reserved, "a"},
		{", price: {input: 0, output: 1}", reserved, "b"},
	} {
		b := bookOf(t, func(r *http.Request) *http.Response {
			if r.URL.Host == "a" {
				return fails(529)
			}
			return good()
		}, "a, fallback: b", "b"+tt.price)
		if reply, _ := b.List()[0].Generate(t.Context(), &llm.Request{MaxPrice: tt.most}, nil); reply.Name != tt.want {
			t.Errorf("%+v: %s answers", tt, reply.Name)
		}
	}
}

// TestImagesFalse refuses pictures for a model that is said to take none.
func TestImagesFalse(t *testing.T) {
	b := bookOf(t, func(*http.Request) *http.Response { return good() }, "blind, images: false", "sees")
	r := &llm.Request{Messages: []*plannerv1.ModelMessage{{Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_Image{Image: &plannerv1.ModelMedia{}}}}}}}
	if _, err := b.List()[0].Generate(t.Context(), r, nil); llm.ClassOf(err) != llm.BadRequest || !strings.Contains(err.Error(), "images: false") {
		t.Error(err)
	}
	if _, err := b.List()[1].Generate(t.Context(), r, nil); err != nil {
		t.Error(err)
	}
}

// TestCredentials reads what a key and headers refer to.
func TestCredentials(t *testing.T) {
	env := environment{"KEY": "secret-key", "TOKEN": "secret-token"}
	entry := &entry{Key: "env:KEY", Headers: map[string]string{"X-Token": "env:TOKEN"}}
	read, err := unlisted(env).credentials(entry)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := read(); err != nil || !cmp.Equal(c, llm.Credentials{Key: "secret-key", Headers: map[string]string{"X-Token": "secret-token"}}) {
		t.Errorf("%+v, %v", c, err)
	}
}
