package llm_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/llm"
)

const user = plannerv1.ModelRole_MODEL_ROLE_USER

func text(s string) *plannerv1.ModelPart {
	return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Text{Text: s}}
}

func image(kind, data string) *plannerv1.ModelPart {
	return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Image{Image: &plannerv1.ModelMedia{MimeType: kind, Data: []byte(data)}}}
}

// conversation has everything that a request can have.
func conversation() *llm.Request {
	temperature := 1.5
	read := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"path":{"type":"string","minLength":1}},"required":["path"],"additionalProperties":false}`
	return &llm.Request{
		System: "Be brief.",
		Messages: []*plannerv1.ModelMessage{
			llm.Message(user, text("Compare a and b"), image("image/png", "png")),
			llm.Message(plannerv1.ModelRole_MODEL_ROLE_ASSISTANT, text("I read both."), llm.Call(calls("1", "read", `{"path":"a"}`)[0]), llm.Call(calls("2", "read", `{"path":`)[0])),
			llm.Message(user, text("Go on"), llm.Result(&plannerv1.ModelToolResult{CallId: "1", Text: "A & <B>"}),
				llm.Result(&plannerv1.ModelToolResult{CallId: "2", Text: "no such file", IsError: true})),
			llm.Message(user, text("and be quick"), text(" ")),
		},
		CacheHere: []int{0, 1, 2, 3},
		Tools: []*plannerv1.ModelTool{
			{Name: "read", Description: "Reads a file", InputSchemaJson: read},
			{Name: "now", InputSchemaJson: ""},
			{Name: "odd", InputSchemaJson: `{"anyOf":[{"required":["größe"]}],"properties":{"größe":{"type":"integer"},"b":{}},"required":["größe","b"]}`},
		},
		MaxTokens: 100, Temperature: &temperature, Stop: []string{"END"}, CacheKey: "task-1",
	}
}

// TestRequests compares what is sent with the files of testdata. UPDATE=1 rewrites them.
func TestRequests(t *testing.T) {
	required := conversation()
	required.ToolChoice = plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED
	none := conversation()
	none.ToolChoice = plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE
	for _, provider := range []string{"openai", "openai_own", "anthropic"} {
		for name, r := range map[string]*llm.Request{
			"plain": hello(), "structured": structured(), "tools": conversation(), "tools_required": required, "tools_none": none,
		} {
			file := filepath.Join("testdata", provider, "request_"+name+".json")
			if strings.HasPrefix(name, "tools_") {
				file = "" // only their choice differs
			}
			t.Run(provider+"/"+name, func(t *testing.T) {
				got, header := sent(t, provider, r)
				if h := header.Get("Authorization") + header.Get("X-Api-Key"); !strings.HasSuffix(h, key) || header.Get("X-Team") != "blue" {
					t.Errorf("headers: %v", header)
				}
				if file == "" {
					want := map[string]string{
						"openai/tools_required": `"required"`, "openai/tools_none": `"none"`,
						"anthropic/tools_required": `{"type":"any"}`,
						"anthropic/tools_none":     `{"type":"none"}`,
					}[strings.TrimSuffix(provider, "_own")+"/"+name]
					if !strings.Contains(strings.Join(strings.Fields(got), ""), `"tool_choice":`+want) {
						t.Errorf("sent %s, want the choice %s", got, want)
					}
					return
				}
				if os.Getenv("UPDATE") != "" {
					if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil || got != string(want) {
					t.Errorf("sent %s\nwant %s, %v", got, want, err)
				}
			})
		}
	}
}

// sent returns the request that a model sends for r.
func sent(t *testing.T, provider string, r *llm.Request) (string, http.Header) {
	t.Helper()
	var body string
	var header http.Header
	cfg := llm.Config{
		Info: llm.Info{Provider: provider, ProviderModel: "m-1", Tools: true, Images: true, MaxTokens: 100, Schema: true}, BaseURL: "http://model.example/v1/",
		Timeout: time.Hour, AtOnce: 1, Admit: admit, Record: func(context.Context, *llm.Reply, time.Time, error) {},
		Credentials: func() (llm.Credentials, error) {
			return llm.Credentials{Key: key, Headers: map[string]string{"X-Team": "blue"}}, nil
		},
		HTTP: &http.Client{Transport: transport(func(r *http.Request, b string) *http.Response {
			body, header = b, r.Header
			header.Set("Path", r.URL.String())
			return status(400, "")
		})},
	}
	if provider == "openai_own" {
		cfg.BaseURL = ""
	}
	path := "http://model.example/v1/chat/completions"
	if provider == "anthropic" {
		path = "http://model.example/v1/messages"
	}
	if _, err := llm.New(cfg).Generate(t.Context(), r, nil); llm.ClassOf(err) != llm.BadRequest {
		t.Fatal(err)
	}
	if cfg.BaseURL != "" && header.Get("Path") != path {
		t.Errorf("sent to %s, want %s", header.Get("Path"), path)
	}
	var indented any
	if err := json.Unmarshal([]byte(body), &indented); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(indented); err != nil {
		t.Fatal(err)
	}
	return out.String(), header
}

// TestImpossibleRequests are refused before anything is sent.
func TestImpossibleRequests(t *testing.T) {
	picture := image("image/tiff", "x")
	sound := &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Audio{Audio: &plannerv1.ModelMedia{MimeType: "audio/flac", Data: []byte("x")}}}
	of := func(role plannerv1.ModelRole, p *plannerv1.ModelPart) *llm.Request {
		return &llm.Request{Messages: []*plannerv1.ModelMessage{llm.Message(role, p)}}
	}
	both := structured()
	both.Tools = conversation().Tools
	for _, tt := range []struct {
		provider string
		request  *llm.Request
		says     string
	}{
		{"openai", of(user, sound), "audio/wav"},
		{"openai", of(plannerv1.ModelRole_MODEL_ROLE_ASSISTANT, picture), "only from users"},
		{"anthropic", of(user, picture), "image/png"},
		{"anthropic", of(user, sound), "does not accept sound"},
		{"anthropic", both, "either tools or a schema"},
		{"openai", &llm.Request{Tools: []*plannerv1.ModelTool{{Name: "a", InputSchemaJson: "[]"}}}, "no JSON object"},
		{"anthropic", &llm.Request{Tools: []*plannerv1.ModelTool{{Name: "a", InputSchemaJson: "{"}}}, "no JSON object"},
	} {
		m := modelOf(tt.provider, 0, func(*http.Request, string) *http.Response {
			t.Errorf("%s: it is sent", tt.says)
			return nil
		})
		reply, err := m.Generate(t.Context(), tt.request, nil)
		if llm.ClassOf(err) != llm.BadRequest || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "its provider") || reply.Usage.Requests != 0 {
			t.Errorf("%s: %v, %+v", tt.says, err, reply)
		}
	}
}

// TestCost checks money against prices of single tokens.
func TestCost(t *testing.T) {
	price := &llm.Price{Input: 3, Output: 15, CachedInput: 0.3, CacheWrite: 3.75}
	for _, tt := range []struct {
		usage llm.Usage
		price *llm.Price
		pico  llm.Money
		known bool
	}{
		{counted, price, (1200*3 + 34*15) * 1e6, true},
		{cached, price, 176*3e6 + 1024*3e5 + 34*15e6, true},
		{written, price, 76*3e6 + 1024*3e5 + 100*3_750_000 + 34*15e6, true},
		{counted, nil, 0, false},
		{llm.Usage{Requests: 1}, nil, 0, true}, // a failed request has no tokens, and costs nothing
		{begun, price, 1200*3e6 + 15e6, false},
		{llm.Usage{Input: 3}, &llm.Price{Input: 0.0375}, 112_500, true},
		{counted, &llm.Price{}, 0, true},
	} {
		cost, known := tt.usage.PricedBy(tt.price).ExactCost()
		if cost != tt.pico || known != tt.known {
			t.Errorf("%+v at %+v: %d, %v; want %d, %v", tt.usage, tt.price, cost, known, tt.pico, tt.known)
		}
	}
	sum := counted.PricedBy(price).Add(cached.PricedBy(nil)).Add(begun.PricedBy(price))
	if want := (llm.Usage{Input: 3600, CachedInput: 1024, Output: 69, Requests: 3, Cost: (2*1200*3 + 35*15) * 1e6, Unpriced: true, Unreported: true}); sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}
}
