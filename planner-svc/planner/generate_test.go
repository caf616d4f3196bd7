package planner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/serve"

	"pawl.dev/planner-svc/planner"
)

// theKey is what the tests' models need.
const theKey = "sk-secret-0123456789"

// provider is a model's provider that answers as it is told.
type provider struct {
	answer http.HandlerFunc
	bodies chan map[string]any
	gone   chan struct{} // gets a value when a request's caller went away
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	p.bodies <- body
	p.answer(w, r)
}

// events answers with server-sent events.
func events(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, line := range lines {
			_, _ = io.WriteString(w, line+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// refuses answers with an error.
func refuses(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// asks starts a provider, and a planner with one model of that kind.
func asks(t *testing.T, kind string, answer http.HandlerFunc, more string) (plannerv1.PlannerServiceClient, *provider) {
	t.Helper()
	p := &provider{answer: answer, bodies: make(chan map[string]any, 10), gone: make(chan struct{}, 1)}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Setenv("PAWL_TEST_MODEL_KEY", theKey)
	base := server.URL
	if kind == "openai" {
		base += "/v1"
	}
	return named(t, fmt.Sprintf("models:\n- {name: it, provider: %s, model: m-1, baseUrl: %q, key: \"env:PAWL_TEST_MODEL_KEY\", retries: 0%s}\n", kind, base, more)), p
}

func named(t *testing.T, file string) plannerv1.PlannerServiceClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := planner.New(t.Context(), planner.Config{Models: path}, planner.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return plannerv1.NewPlannerServiceClient(grpctest.Serve(t, s.Register, serve.Options{MaxRecvBytes: planner.MaxRequestBytes}))
}

// generate asks, and returns the pieces and the end.
func generate(ctx context.Context, c plannerv1.PlannerServiceClient, req *plannerv1.GenerateRequest) (pieces []string, end *plannerv1.GenerateEnd, err error) {
	stream, err := c.Generate(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	for {
		got, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return pieces, end, nil
		}
		if err != nil {
			return pieces, end, err
		}
		if e := got.GetEnd(); e != nil {
			end = e
			continue
		}
		pieces = append(pieces, got.GetText())
	}
}

func hello() *plannerv1.GenerateRequest {
	return &plannerv1.GenerateRequest{Messages: []*plannerv1.ModelMessage{said("Hello")}}
}

func said(text string) *plannerv1.ModelMessage {
	return &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_USER, Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_Text{Text: text}}}}
}

const (
	chunk     = `data: {"id":"c","object":"chat.completion.chunk","model":"m-1-2026","choices":[{"index":0,"delta":{"content":%q},"finish_reason":%s}]}`
	usage     = `data: {"id":"c","object":"chat.completion.chunk","model":"m-1-2026","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`
	done      = `data: [DONE]`
	began     = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"x\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m-1-2026\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":8,\"cache_read_input_tokens\":3,\"output_tokens\":1}}}"
	block     = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}"
	thought   = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}"
	delta     = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}"
	stopped   = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":%q,\"stop_sequence\":null},\"usage\":{\"output_tokens\":7}}"
	ended     = "event: message_stop\ndata: {\"type\":\"message_stop\"}"
	ping      = "event: ping\ndata: {\"type\":\"ping\"}"
	anthropic = "anthropic"
	openAI    = "openai"
)

// Each provider's stream, as it is on the wire.
func TestGenerate(t *testing.T) {
	open := func(finish string) http.HandlerFunc {
		return events(": comment", fmt.Sprintf(chunk, "", "null"), fmt.Sprintf(chunk, "Good ", "null"), fmt.Sprintf(chunk, "day", "null"), fmt.Sprintf(chunk, "", `"`+finish+`"`), usage, done)
	}
	other := func(stop string) http.HandlerFunc {
		return events(began, block, ping, thought, fmt.Sprintf(delta, "Good "), fmt.Sprintf(delta, "day"), fmt.Sprintf(stopped, stop), ended)
	}
	for _, tt := range []struct {
		kind   string
		answer http.HandlerFunc
		stop   plannerv1.StopReason
	}{
		{openAI, open("stop"), plannerv1.StopReason_STOP_REASON_END},
		{openAI, open("length"), plannerv1.StopReason_STOP_REASON_MAX_TOKENS},
		{openAI, open("content_filter"), plannerv1.StopReason_STOP_REASON_REFUSED},
		{anthropic, other("end_turn"), plannerv1.StopReason_STOP_REASON_END},
		{anthropic, other("max_tokens"), plannerv1.StopReason_STOP_REASON_MAX_TOKENS},
		{anthropic, other("stop_sequence"), plannerv1.StopReason_STOP_REASON_STOP_SEQUENCE},
		{anthropic, other("refusal"), plannerv1.StopReason_STOP_REASON_REFUSED},
	} {
		t.Run(tt.kind+"/"+tt.stop.String(), func(t *testing.T) {
			c, _ := asks(t, tt.kind, tt.answer, "")
			pieces, end, err := generate(t.Context(), c, hello())
			if err != nil || len(pieces) != 2 || strings.Join(pieces, "") != "Good day" {
				t.Fatalf("%q, %v", pieces, err)
			}
			if end.GetStopReason() != tt.stop || end.GetModel() != "it" || end.GetProviderModel() != "m-1-2026" {
				t.Errorf("end: %v", end)
			}
			if u := end.GetUsage(); u.GetInputTokens() != 11 || u.GetOutputTokens() != 7 || u.GetModelCalls() != 1 {
				t.Errorf("usage: %v", u)
			}
		})
	}
}

// What a model is asked with, on the wire.
func TestGenerateRequest(t *testing.T) {
	hot := 1.5
	req := &plannerv1.GenerateRequest{
		System: "Be brief.", MaxOutputTokens: 100, Temperature: &hot, StopSequences: []string{"END"},
		Messages: []*plannerv1.ModelMessage{
			said("Look"),
			{Role: plannerv1.ModelRole_MODEL_ROLE_ASSISTANT, Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_Text{Text: "At what?"}}}},
			{Role: plannerv1.ModelRole_MODEL_ROLE_USER, Parts: []*plannerv1.ModelPart{
				{Part: &plannerv1.ModelPart_Text{Text: "This"}},
				{Part: &plannerv1.ModelPart_Image{Image: &plannerv1.ModelMedia{MimeType: "image/png", Data: []byte("png")}}},
			}},
		},
	}
	for kind, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		openAI: {events(fmt.Sprintf(chunk, "x", `"stop"`), done), `{"max_tokens":100,"messages":[{"content":"Be brief.","role":"system"},{"content":"Look","role":"user"},` +
			`{"content":"At what?","role":"assistant"},{"content":[{"text":"This","type":"text"},{"image_url":{"url":"data:image/png;base64,cG5n"},"type":"image_url"}],"role":"user"}],` +
			`"model":"m-1","stop":["END"],"stream":true,"stream_options":{"include_usage":true},"temperature":1.5}`},
		anthropic: {events(began, fmt.Sprintf(stopped, "end_turn"), ended), `{"max_tokens":100,"messages":[{"content":[{"text":"Look","type":"text"}],"role":"user"},` +
			`{"content":[{"text":"At what?","type":"text"}],"role":"assistant"},{"content":[{"text":"This","type":"text"},` +
			`{"source":{"data":"cG5n","media_type":"image/png","type":"base64"},"type":"image"}],"role":"user"}],` +
			`"model":"m-1","stop_sequences":["END"],"stream":true,"system":[{"text":"Be brief.","type":"text"}],"temperature":1}`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Setenv("OPENAI_API_KEY", "not-this")
			t.Setenv("ANTHROPIC_API_KEY", "not-this")
			headers := make(chan http.Header, 1)
			c, p := asks(t, kind, func(w http.ResponseWriter, r *http.Request) {
				headers <- r.Header
				tt.answer(w, r)
			}, ", maxTokens: 200")
			if _, _, err := generate(t.Context(), c, req); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(<-p.bodies)
			if err != nil || string(raw) != tt.want {
				t.Errorf("asked %s, %v\nwant %s", raw, err, tt.want)
			}
			h := <-headers
			if key := h.Get("Authorization") + h.Get("X-Api-Key"); !strings.HasSuffix(key, theKey) || strings.Contains(key, "not-this") {
				t.Errorf("the key sent: %q", key)
			}
		})
	}
}

// More tokens than the operator allows, or none said.
func TestGenerateBoundsTokens(t *testing.T) {
	c, p := asks(t, openAI, events(fmt.Sprintf(chunk, "x", `"stop"`), done), ", maxTokens: 50")
	for _, wanted := range []uint32{0, 51, 1 << 31} {
		req := hello()
		req.MaxOutputTokens = wanted
		if _, _, err := generate(t.Context(), c, req); err != nil {
			t.Fatal(err)
		}
		if got := (<-p.bodies)["max_tokens"]; got != 50.0 {
			t.Errorf("%d tokens wanted, %v asked for", wanted, got)
		}
	}
}

// A model that fails says how, and what to do, and nothing of the key.
func TestGenerateFails(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   string
		answer http.HandlerFunc
		code   codes.Code
		reason commonv1.ErrorReason
		model  string // the metadata model_error
		says   string
	}{
		"openai rate limit": {openAI, refuses(429, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After", "7"),
			codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "RATE_LIMITED", "slow down"},
		"openai quota": {openAI, refuses(429, `{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}`),
			codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "AUTH", "check the credit and billing of the key's account (HTTP 429: pay)"},
		"openai key": {openAI, refuses(401, `{"error":{"message":"Incorrect API key provided: `+theKey+`","type":"invalid_request_error","code":"invalid_api_key"}}`),
			codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "AUTH", "PAWL_TEST_MODEL_KEY where the planner is started (HTTP 401: Incorrect API key provided: ***"},
		"openai context": {openAI, refuses(400, `{"error":{"message":"too many tokens","code":"context_length_exceeded"}}`),
			codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "TOO_LONG", "send less"},
		"compatible context": {openAI, refuses(400, `{"error":{"message":"This model's maximum context length is 10 tokens","code":400}}`),
			codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "TOO_LONG", "10 tokens"},
		"openai filter": {openAI, refuses(400, `{"error":{"message":"no","code":"content_filter"}}`),
			codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "REFUSED", "something else"},
		"openai no model": {openAI, refuses(404, `{"error":{"message":"no m-1","code":"model_not_found"}}`),
			codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "NOT_FOUND", "no m-1"},
		"openai down": {openAI, refuses(503, `<html>down</html>`), codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "UNAVAILABLE", "503"},
		"openai in the stream": {openAI, events(fmt.Sprintf(chunk, "a", "null"), `data: {"error":{"message":"gone","type":"server_error","code":null}}`),
			codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "UNAVAILABLE", "gone"},
		"openai breaks off": {openAI, events(fmt.Sprintf(chunk, "a", "null")), codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "BROKEN", "broke off"},
		"openai wrong JSON": {openAI, events(`data: {"choices":[`, done), codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "BROKEN", "JSON"},
		"openai no events": {openAI, refuses(200, `{"choices":[{"message":{"content":"x"}}]}`), codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "BROKEN",
			"check `baseUrl` (it usually ends with /v1) (application/json came instead of a stream of events: `{\"choices\":[{\"message\""},
		"openai a page": {openAI, page("<!doctype html>\n<title>Sign\x1b[2J in</title> " + theKey), codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "BROKEN",
			`(text/html came instead of a stream of events: "<!doctype html> <title>Sign\x1b[2J in</title> ***")`},
		"anthropic a page": {anthropic, page("<html>Welcome"), codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "BROKEN",
			"(text/html came instead of a stream of events: `<html>Welcome`)"},
		"openai redirects": {openAI, refuses(307, "", "Location", "http://127.0.0.1:1/elsewhere"),
			codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "NOT_FOUND", "redirects"},
		"openai cut": {openAI, cutOff, codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "UNAVAILABLE", "EOF"},
		"anthropic rate limit": {anthropic, refuses(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", "7"),
			codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "RATE_LIMITED", "slow down"},
		"anthropic key": {anthropic, refuses(401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key `+theKey+`"}}`),
			codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "AUTH", "***"},
		"anthropic context": {anthropic, refuses(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`),
			codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "TOO_LONG", "9 tokens"},
		"anthropic overloaded": {anthropic, refuses(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "UNAVAILABLE", "Overloaded"},
		"anthropic in the stream": {anthropic, events(began, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"),
			codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "UNAVAILABLE", "Overloaded"},
		"anthropic breaks off": {anthropic, events(began, block, fmt.Sprintf(delta, "a")), codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "BROKEN", "broke off"},
		"anthropic wrong JSON": {anthropic, events("event: message_start\ndata: {\"type\":"), codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "BROKEN", "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := asks(t, tt.kind, tt.answer, "")
			_, end, err := generate(t.Context(), c, hello())
			e := errs.From(err)
			if e == nil || end != nil || e.Code != tt.code || e.Reason != tt.reason || e.Metadata["model_error"] != tt.model || !strings.Contains(e.Message, tt.says) {
				t.Errorf("%+v, want %v %v %s with %q", e, tt.code, tt.reason, tt.model, tt.says)
			}
			if strings.Contains(fmt.Sprintf("%+v", e), theKey) {
				t.Errorf("the key is in the error: %+v", e)
			}
			if limited := tt.reason == commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED; limited != (e.RetryAfter == 7*time.Second) {
				t.Errorf("retry after %v", e.RetryAfter)
			}
		})
	}
}

// page is a website's answer to everything.
func page(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, text)
	}
}

// cutOff ends the connection in the middle.
func cutOff(w http.ResponseWriter, r *http.Request) {
	events(fmt.Sprintf(chunk, "a", "null"))(w, r)
	panic(http.ErrAbortHandler)
}

// A caller that goes away, and a model that takes too long, end the request to the provider.
func TestGenerateEnds(t *testing.T) {
	for _, kind := range []string{openAI, anthropic} {
		first := map[string]string{openAI: fmt.Sprintf(chunk, "a", "null"), anthropic: began + "\n\n" + fmt.Sprintf(delta, "a")}[kind]
		var p *provider
		slow := func(w http.ResponseWriter, r *http.Request) {
			events(first)(w, r)
			<-r.Context().Done()
			p.gone <- struct{}{}
		}
		t.Run(kind+"/cancel", func(t *testing.T) {
			var c plannerv1.PlannerServiceClient
			c, p = asks(t, kind, slow, "")
			ctx, cancel := context.WithCancel(t.Context())
			stream, err := c.Generate(ctx, hello())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := stream.Recv(); err != nil || got.GetText() != "a" {
				t.Fatalf("%v %v", got, err)
			}
			cancel()
			<-p.gone
			if _, err := stream.Recv(); errs.From(err).Code != codes.Canceled {
				t.Errorf("%v", err)
			}
		})
		t.Run(kind+"/timeout", func(t *testing.T) {
			var c plannerv1.PlannerServiceClient
			c, p = asks(t, kind, slow, ", timeout: 50ms")
			_, _, err := generate(t.Context(), c, hello())
			<-p.gone
			if e := errs.From(err); e.Code != codes.DeadlineExceeded || e.Reason != commonv1.ErrorReason_ERROR_REASON_TIMEOUT || !strings.Contains(e.Message, "`timeout`") {
				t.Errorf("%+v", e)
			}
		})
	}
}

// A model is not asked beyond the budget of a request.
func TestGenerateWithinBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		budget *commonv1.ModelBudget
		tokens float64 // that the model may reply with; 0 if it is not asked
	}{
		"none":   {nil, 4096},
		"calls":  {&commonv1.ModelBudget{ModelCalls: proto.Uint32(0)}, 0},
		"prompt": {&commonv1.ModelBudget{Tokens: proto.Uint64(1)}, 0},
		"tokens": {&commonv1.ModelBudget{ModelCalls: proto.Uint32(1), Tokens: proto.Uint64(1000)}, 995}, // of prompt and reply together
		"money":  {&commonv1.ModelBudget{CostNanoUsd: proto.Uint64(300_000)}, 99},                       // about 1000 output tokens at $3 would be 3,000,000
	} {
		t.Run(name, func(t *testing.T) {
			c, p := asks(t, openAI, events(fmt.Sprintf(chunk, "x", `"stop"`), done), ", price: {input: 1, output: 3}")
			req := hello()
			req.Budget = tt.budget
			_, _, err := generate(t.Context(), c, req)
			if tt.tokens == 0 {
				if e := errs.From(err); e == nil || e.Reason != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED || len(p.bodies) != 0 {
					t.Errorf("%v, %d requests", err, len(p.bodies))
				}
				return
			}
			if got := (<-p.bodies)["max_tokens"]; err != nil || got.(float64) > tt.tokens || got.(float64) < tt.tokens-10 {
				t.Errorf("%v, %v tokens, want %v", err, got, tt.tokens)
			}
		})
	}
}

// Without named models nothing can be generated, and the error says what to configure.
func TestGenerateWithoutModels(t *testing.T) {
	for _, model := range []string{"", "offline", "playbook"} {
		req := hello()
		req.Model = model
		_, _, err := generate(t.Context(), client(t), req)
		if e := errs.From(err); e == nil || e.Code != codes.FailedPrecondition || !strings.Contains(e.Message, "--models") {
			t.Errorf("%q: %+v", model, e)
		}
	}
}

func TestGenerateChooses(t *testing.T) {
	t.Setenv("PAWL_TEST_MODEL_KEY", theKey)
	c := named(t, `{"models": [
		{"name": "first", "provider": "openai", "model": "gpt-small", "key": "env:PAWL_TEST_MODEL_KEY", "baseUrl": "http://127.0.0.1:1/v1", "retries": 0},
		{"name": "second", "provider": "anthropic", "model": "claude-large", "key": "env:PAWL_TEST_MODEL_KEY", "baseUrl": "http://127.0.0.1:1", "retries": 0}]}`)
	for _, tt := range []struct {
		model string
		hints []string
		want  string
	}{
		{"", nil, `"first"`}, {"second", []string{"gpt"}, `"second"`}, {"", []string{"nothing", " ", "Claude", "gpt"}, `"second"`},
		{"", []string{"nothing"}, `"first"`}, {"third", nil, "the configured models are first, second"},
	} {
		req := hello()
		req.Model, req.ModelHints = tt.model, tt.hints
		if _, _, err := generate(t.Context(), c, req); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q %q: %v", tt.model, tt.hints, err)
		}
	}
	list, err := c.ListModels(t.Context(), &plannerv1.ListModelsRequest{})
	if err != nil || len(list.GetModels()) != 4 {
		t.Fatalf("%v %v", list, err)
	}
	for i, m := range list.GetModels() {
		if !m.GetCanPlan() || m.GetCanGenerate() != (i >= 2) || m.GetIsGenerateDefault() != (i == 2) || strings.Contains(m.String(), theKey) {
			t.Errorf("%d: %v", i, m)
		}
	}
}

func TestGenerateRefusesBadRequests(t *testing.T) {
	c, _ := asks(t, openAI, events(), "")
	big := hello()
	for range 5 {
		big.Messages = append(big.Messages, said(strings.Repeat("x", 4<<20)))
	}
	hot := 2.1
	hotter := hello()
	hotter.Temperature = &hot
	called := hello()
	called.Messages[0].Parts = append(called.Messages[0].Parts, &plannerv1.ModelPart{Part: &plannerv1.ModelPart_ToolCall{ToolCall: &plannerv1.ModelToolCall{Id: "1", Name: "x"}}})
	answered := hello()
	answered.Messages = append(answered.Messages, &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_ASSISTANT,
		Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_ToolResult{ToolResult: &plannerv1.ModelToolResult{CallId: "1"}}}}})
	for name, tt := range map[string]struct {
		req  *plannerv1.GenerateRequest
		code codes.Code
	}{
		"the user calls a tool": {called, codes.InvalidArgument}, "the model answers a call": {answered, codes.InvalidArgument},
		"no message":   {&plannerv1.GenerateRequest{}, codes.InvalidArgument},
		"too large":    {big, codes.ResourceExhausted},
		"temperature":  {hotter, codes.InvalidArgument},
		"empty part":   {&plannerv1.GenerateRequest{Messages: []*plannerv1.ModelMessage{{Role: 1, Parts: []*plannerv1.ModelPart{{}}}}}, codes.InvalidArgument},
		"role unknown": {&plannerv1.GenerateRequest{Messages: []*plannerv1.ModelMessage{{Parts: said("x").GetParts()}}}, codes.InvalidArgument},
	} {
		if _, _, err := generate(t.Context(), c, tt.req); errs.From(err) == nil || errs.From(err).Code != tt.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file that cannot be used is an error at the start, which never repeats what may be a key.
func TestModelFiles(t *testing.T) {
	t.Setenv("PAWL_TEST_MODEL_KEY", theKey)
	const good = "key: \"env:PAWL_TEST_MODEL_KEY\""
	for name, tt := range map[string]struct{ file, says string }{
		"no models":     {"models: []", "lists 0"},
		"empty":         {"", "lists 0"},
		"unknown key":   {"models:\n- {name: a, provider: openai, model: m, " + good + ", nonsense: x}", "nonsense"},
		"provider":      {"models:\n- {name: a, provider: other, model: m, " + good + "}", "openai (also"},
		"taken":         {"models:\n- {name: offline, provider: openai, model: m, " + good + "}", "built-in"},
		"twice":         {"models:\n- {name: a, provider: openai, model: m, " + good + "}\n- {name: a, provider: openai, model: m, " + good + "}", "twice"},
		"a key itself":  {"models:\n- {name: a, provider: openai, model: m, key: " + theKey + "}", "env:NAME"},
		"no variable":   {"models:\n- {name: a, provider: openai, model: m, key: \"env:PAWL_TEST_NO_KEY\"}", "PAWL_TEST_NO_KEY"},
		"no file":       {"models:\n- {name: a, provider: openai, model: m, key: \"file:none\"}", "none"},
		"no key":        {"models:\n- {name: a, provider: openai, model: m}", "`key` is missing"},
		"user in URL":   {"models:\n- {name: a, provider: openai, model: m, baseUrl: \"http://u:" + theKey + "@h/v1\"}", "no user"},
		"tokens":        {"models:\n- {name: a, provider: openai, model: m, " + good + ", maxTokens: 2000000}", "maxTokens"},
		"long timeout":  {"models:\n- {name: a, provider: openai, model: m, " + good + ", timeout: 2h}", "timeout"},
		"wrong timeout": {"models:\n- {name: a, provider: openai, model: m, " + good + ", timeout: soon}", "90s"},
		"retries":       {"models:\n- {name: a, provider: openai, model: m, " + good + ", retries: 6}", "retries"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "models.yaml")
			if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := planner.New(t.Context(), planner.Config{Models: path}, planner.Deps{})
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), theKey) {
				t.Errorf("%v, want one with %q", err, tt.says)
			}
		})
	}
}

// A key in a file is read again for each request.
func TestModelKeyFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Authorization")
		events(fmt.Sprintf(chunk, "x", `"stop"`), done)(w, r)
	}))
	defer server.Close()
	write("key", "one\n")
	write("models.yaml", fmt.Sprintf("models:\n- {name: a, provider: openai, model: m, baseUrl: %q, key: \"file:key\"}", server.URL))
	s, err := planner.New(t.Context(), planner.Config{Models: filepath.Join(dir, "models.yaml")}, planner.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	c := plannerv1.NewPlannerServiceClient(grpctest.Serve(t, s.Register, serve.Options{}))
	for _, key := range []string{"one", "two"} {
		write("key", key)
		if _, _, err := generate(t.Context(), c, hello()); err != nil {
			t.Fatal(err)
		}
		if got := <-keys; got != "Bearer "+key {
			t.Errorf("sent %q, want %s", got, key)
		}
	}
}
