package mcppool

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// planner is a fake planner service that answers with answer and records requests and their users.
type planner struct {
	plannerv1.UnimplementedPlannerServiceServer
	answer func(*plannerv1.GenerateRequest, grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error

	mu    sync.Mutex
	asked []*plannerv1.GenerateRequest // guarded by mu
	users []string                     // guarded by mu; of each request in asked
}

func (p *planner) Generate(req *plannerv1.GenerateRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error {
	who, err := identity.FromContext(stream.Context())
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.asked, p.users = append(p.asked, req), append(p.users, who.Sub)
	p.mu.Unlock()
	return p.answer(req, stream)
}

// ListModels lists a model that answers and one that plans.
func (p *planner) ListModels(context.Context, *plannerv1.ListModelsRequest) (*plannerv1.ListModelsResponse, error) {
	return &plannerv1.ListModelsResponse{Models: []*plannerv1.Model{{Name: "offline", CanPlan: true}, {Name: "fast", CanGenerate: true}}}, nil
}

func (p *planner) requests() ([]*plannerv1.GenerateRequest, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.users
}

// paris is a model that knows one thing.
func paris(_ *plannerv1.GenerateRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error {
	for _, piece := range []*plannerv1.GenerateResponse{
		{Piece: &plannerv1.GenerateResponse_Text{Text: "Pa"}}, {Piece: &plannerv1.GenerateResponse_Text{Text: "ris"}},
		{Piece: &plannerv1.GenerateResponse_End{End: &plannerv1.GenerateEnd{
			StopReason: plannerv1.StopReason_STOP_REASON_MAX_TOKENS, Model: "fast", ProviderModel: "m-1",
			Usage: &commonv1.Usage{InputTokens: 11, OutputTokens: 7, ModelCalls: 1},
		}}},
	} {
		if err := stream.Send(piece); err != nil {
			return err
		}
	}
	return nil
}

// saysParis is the answer of paris as MCP servers get it.
const saysParis = `{"content":{"text":"Paris","type":"text"},"model":"m-1","role":"assistant","stopReason":"maxTokens"}`

// withPlanner starts a pool with a planner and a file with these servers.
func withPlanner(t *testing.T, p *planner, cfg Config, servers map[string]any) *suite {
	t.Helper()
	keys, err := identity.OpenKeyFile(filepath.Join(t.TempDir(), "keys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	register := func(r grpc.ServiceRegistrar) { plannerv1.RegisterPlannerServiceServer(r, p) }
	conn := grpctest.Server(t, register, serve.Options{Auth: keys})(keys.Ephemeral("mcppool", []identity.Role{identity.RoleService}))
	cfg.MCPConfigs = []string{writeConfig(t, map[string]any{"mcpServers": servers})}
	return startWith(t, cfg, Deps{Planner: conn})
}

// sampler is a fake server's entry in a file: allowed is its sampling setting, more holds further keys and values in turn.
func sampler(mode string, allowed any, more ...any) map[string]any {
	s := mcptest.Stdio(mode)
	entry := map[string]any{"command": s.Command, "env": s.Env, "sampling": allowed}
	for i := 0; i < len(more); i += 2 {
		entry[more[i].(string)] = more[i+1]
	}
	return entry
}

// A legacy server asks a model by a request of its own, a modern one by its result; both are refused unless an operator allows it.
func TestSampling(t *testing.T) {
	web := httptest.NewServer(mcptest.Web(mcptest.Modern))
	t.Cleanup(web.Close)
	sse := httptest.NewServer(&mcptest.SSE{})
	t.Cleanup(sse.Close)
	p := &planner{answer: paris}
	s := withPlanner(t, p, Config{}, map[string]any{
		"legacy": sampler(mcptest.Good, true), "modern": sampler(mcptest.Modern, true), "web": map[string]any{"url": web.URL, "sampling": map[string]any{}},
		"nolegacy": sampler(mcptest.Good, false), "nomodern": sampler(mcptest.Modern, nil), "noweb": map[string]any{"url": web.URL},
	})
	for _, id := range []string{"legacy", "modern", "web"} {
		before, _ := p.requests()
		o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: id, Name: "sample"})
		if o.err != nil || o.text() != saysParis {
			t.Errorf("%s: %q, %v", id, o.text(), o.err)
		}
		if u := o.result.GetModelUsage(); u.GetInputTokens() != 11 || u.GetOutputTokens() != 7 || u.GetModelCalls() != 1 {
			t.Errorf("%s: usage %v", id, u)
		}
		asked, users := p.requests()
		if len(asked) != len(before)+1 || users[len(users)-1] != "ann" {
			t.Errorf("%s: asked %d times more, as %v", id, len(asked)-len(before), users)
		}
	}
	before, _ := p.requests()
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "nolegacy", Name: "sample"})
	if o.err != nil || !strings.Contains(o.text(), `"code":-1`) || !strings.Contains(o.text(), "an operator allows it") || o.result.GetModelUsage() != nil {
		t.Errorf("refused: %q, %v", o.text(), o.err)
	}
	for _, id := range []string{"nomodern", "noweb"} {
		o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: id, Name: "sample"})
		if e := errs.From(o.err); e == nil || e.Code != codes.FailedPrecondition || e.Metadata[errs.OutcomeKey] != errs.OutcomeKnown || !strings.Contains(e.Message, "an operator allows it") {
			t.Errorf("%s refused: %v", id, o.err)
		}
	}
	if after, _ := p.requests(); len(after) != len(before) {
		t.Errorf("a model was asked for servers without permission")
	}
}

// TestMcpServer warns if a server may ask a model that does not exist.
func TestDiagnosisOfModels(t *testing.T) {
	servers := map[string]any{
		"any": sampler(mcptest.Good, true), "fast": sampler(mcptest.Good, map[string]any{"model": "fast"}),
		"plans": sampler(mcptest.Good, map[string]any{"model": "offline"}), "never": sampler(mcptest.Good, false),
	}
	s := withPlanner(t, &planner{}, Config{}, servers)
	alone := startWith(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": servers})}}, Deps{})
	for _, tt := range []struct {
		s                  *suite
		id                 string
		status             mcppoolv1.ServerCheck_Status
		message, andAdvice string
	}{
		{s, "any", mcppoolv1.ServerCheck_STATUS_OK, "the model that it hints at, one of fast", ""},
		{s, "fast", mcppoolv1.ServerCheck_STATUS_OK, "may ask fast", ""},
		{s, "plans", mcppoolv1.ServerCheck_STATUS_WARNING, `"offline", which does not exist; the models are fast`, "pawl mcp update plans --sampling"},
		{alone, "fast", mcppoolv1.ServerCheck_STATUS_WARNING, "has no planner", "--planner"},
		{s, "never", 0, "", ""},
	} {
		resp, err := tt.s.as("ann").TestMcpServer(t.Context(), &mcppoolv1.TestMcpServerRequest{Id: tt.id})
		if err != nil || !resp.GetOk() {
			t.Fatal(err, resp)
		}
		last := resp.GetChecks()[len(resp.GetChecks())-1]
		if (last.GetName() == "models") != (tt.status != 0) {
			t.Errorf("%s: the last check is %v", tt.id, last)
		}
		if tt.status != 0 && (last.GetStatus() != tt.status || !strings.Contains(last.GetMessage(), tt.message) || !strings.Contains(last.GetAdvice(), tt.andAdvice)) {
			t.Errorf("%s: %v", tt.id, last)
		}
	}
}

// The planner gets the server's request, within the bounds that the operator set.
func TestSamplingRequest(t *testing.T) {
	p := &planner{answer: paris}
	s := withPlanner(t, p, Config{}, map[string]any{
		"hints": sampler(mcptest.Good, map[string]any{"maxTokens": 50}), "named": sampler(mcptest.Modern, map[string]any{"model": "fast"}),
	})
	const params = `{"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image","data":"cG5n","mimeType":"image/png"}]},
		{"role":"assistant","content":{"type":"text","text":"Show me."}},{"role":"user","content":{"type":"audio","data":"d2F2","mimeType":"audio/wav"}}],
		"systemPrompt":"Be brief.","maxTokens":2000,"temperature":0.5,"stopSequences":["END"],"includeContext":"allServers",
		"modelPreferences":{"hints":[{"name":"gpt"},{"name":"claude"}],"costPriority":1},"metadata":{"a":1}}`
	for _, id := range []string{"hints", "named"} {
		if o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: id, Name: "sample", InputJson: `{"params":` + params + `}`}); o.text() != saysParis {
			t.Fatalf("%s: %q, %v", id, o.text(), o.err)
		}
	}
	asked, _ := p.requests()
	first, second := asked[0], asked[1]
	if first.GetSystem() != "Be brief." || first.GetMaxOutputTokens() != 50 || first.GetTemperature() != 0.5 || fmt.Sprint(first.GetStopSequences()) != "[END]" ||
		fmt.Sprint(first.GetModelHints()) != "[gpt claude]" || first.GetModel() != "" {
		t.Errorf("asked %v", first)
	}
	if second.GetModel() != "fast" || len(second.GetModelHints()) != 0 || second.GetMaxOutputTokens() != 1024 {
		t.Errorf("asked %v", second)
	}
	m := first.GetMessages()
	if len(m) != 3 || string(m[0].GetParts()[1].GetImage().GetData()) != "png" || m[1].GetRole() != plannerv1.ModelRole_MODEL_ROLE_ASSISTANT || m[2].GetParts()[0].GetAudio().GetMimeType() != "audio/wav" {
		t.Errorf("messages %v", m)
	}
}

func TestSamplingRefusesInvalidRequests(t *testing.T) {
	p := &planner{answer: paris}
	s := withPlanner(t, p, Config{}, map[string]any{"legacy": sampler(mcptest.Good, true), "modern": sampler(mcptest.Modern, true)})
	const hello = `"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}]`
	for params, says := range map[string]string{
		`{` + hello + `,"maxTokens":1,"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`: "tools in sampling is not offered",
		`{` + hello + `,"maxTokens":1,"toolChoice":{"mode":"auto"}}`:                           "toolChoice in sampling",
		`{"messages":[],"maxTokens":1}`:                                                        "messages: must contain",
		`{"messages":[{"role":"system","content":{"type":"text","text":"Hi"}}],"maxTokens":1}`: "neither user nor assistant",
		`{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1"}}]}`:      "tool_result",
		`{"messages":[{"role":"user","content":{"type":"image","mimeType":"image/png"}}]}`:     "no data",
		`{` + hello + `,"temperature":3}`:                                                      "temperature",
		`{` + hello + `,"stopSequences":[""]}`:                                                 "stop_sequences",
		`{"messages":"x"}`:                                                                     "not those of sampling",
	} {
		for _, id := range []string{"legacy", "modern"} {
			o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: id, Name: "sample", InputJson: `{"params":` + params + `}`})
			if got := o.text() + fmt.Sprint(o.err); !strings.Contains(got, says) || id == "legacy" && !strings.Contains(got, "-32602") {
				t.Errorf("%s, %s: %s", id, params, got)
			}
		}
	}
	if asked, _ := p.requests(); len(asked) != 0 {
		t.Errorf("a model was asked %v", asked)
	}
}

// Each call may ask models as often as the operator allows.
func TestSamplingIsCounted(t *testing.T) {
	p := &planner{answer: paris}
	s := withPlanner(t, p, Config{}, map[string]any{"fake": sampler(mcptest.Good, map[string]any{"maxRequests": 2})})
	for range 2 {
		o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "sample", InputJson: `{"n":3}`})
		if strings.Count(o.text(), "Paris") != 2 || !strings.Contains(o.text(), "maxRequests") || o.result.GetModelUsage().GetModelCalls() != 2 || o.result.GetModelUsage().GetInputTokens() != 22 {
			t.Errorf("%q, %v, %v", o.text(), o.result.GetModelUsage(), o.err)
		}
	}
}

// Each request gets the part of the budget that earlier requests of the call have left.
func TestSamplingHasABudget(t *testing.T) {
	p := &planner{answer: paris}
	s := withPlanner(t, p, Config{}, map[string]any{"fake": sampler(mcptest.Good, true)})
	budget := &commonv1.ModelBudget{ModelCalls: proto.Uint32(5), Tokens: proto.Uint64(100)}
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "sample", InputJson: `{"n":3}`, ModelBudget: budget})
	if o.err != nil {
		t.Fatal(o.err)
	}
	asked, _ := p.requests()
	for i, r := range asked {
		if b := r.GetBudget(); b.GetModelCalls() != uint32(5-i) || b.GetTokens() != uint64(100-18*i) || b.CostNanoUsd != nil {
			t.Errorf("request %d has %v", i, b)
		}
	}
	if len(asked) != 3 {
		t.Errorf("%d requests", len(asked))
	}
}

// The model's request ends with the call.
func TestSamplingEndsWithItsCall(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	p := &planner{answer: func(_ *plannerv1.GenerateRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error {
		began <- struct{}{}
		<-stream.Context().Done()
		ended <- struct{}{}
		return stream.Context().Err()
	}}
	s := withPlanner(t, p, Config{}, map[string]any{"legacy": sampler(mcptest.Good, true), "modern": sampler(mcptest.Modern, true)})
	for _, id := range []string{"legacy", "modern"} {
		v := converse(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: id, Name: "sample", CallId: id})
		<-began
		if _, err := s.as("ann").CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: id}); err != nil {
			t.Fatal(err)
		}
		<-ended
		o := v.end()
		if id == "modern" && errs.From(o.err).Code != codes.Canceled {
			t.Errorf("%s: %q, %v", id, o.text(), o.err)
		}
		if id == "legacy" && o.err == nil && !strings.Contains(o.text(), "has ended") {
			t.Errorf("%s: %q, %v", id, o.text(), o.err)
		}
	}
}

// The user of a request must be certain: on a connection that users share, a request that names no call is refused.
func TestSamplingIsAttributed(t *testing.T) {
	p := &planner{answer: paris}
	s := withPlanner(t, p, Config{}, map[string]any{
		"shared": sampler(mcptest.Good, true, "isolation", "shared"), "own": sampler(mcptest.Good, true),
	})
	for _, user := range []string{"ann", "bob"} {
		if o := invoke(t, s.as(user), &mcppoolv1.CallToolRequest{McpId: "shared", Name: "sample"}); o.text() != saysParis {
			t.Errorf("%s, by its token: %q, %v", user, o.text(), o.err)
		}
	}
	if _, users := p.requests(); fmt.Sprint(users) != "[ann bob]" {
		t.Errorf("asked as %v", users)
	}
	for _, id := range []string{"shared", "own"} {
		o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: id, Name: "sample", InputJson: `{"n":-1}`})
		if refused := strings.Contains(o.text(), "a model's answer over a connection that all users share"); refused != (id == "shared") {
			t.Errorf("%s, without a token: %q, %v", id, o.text(), o.err)
		}
	}
}

// If the model fails, a legacy server gets the error; a modern server's call cannot continue, and its caller gets the error.
func TestSamplingFails(t *testing.T) {
	p := &planner{answer: func(*plannerv1.GenerateRequest, grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error {
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "the model is out of order")
	}}
	s := withPlanner(t, p, Config{}, map[string]any{"legacy": sampler(mcptest.Good, true), "modern": sampler(mcptest.Modern, true, "tools", map[string]any{"*": map[string]any{"effect": "read"}})})
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "legacy", Name: "sample"})
	if o.err != nil || !strings.Contains(o.text(), "-32603") || !strings.Contains(o.text(), "out of order") {
		t.Errorf("legacy: %q, %v", o.text(), o.err)
	}
	o = invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "modern", Name: "sample"})
	if e := errs.From(o.err); e == nil || e.Code != codes.Unavailable || e.Reason != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR || e.Metadata[errs.OutcomeKey] != errs.OutcomeKnown {
		t.Errorf("modern: %v", o.err)
	}
	if asked, _ := p.requests(); len(asked) != 2 { // the pool does not retry
		t.Errorf("asked %d times", len(asked))
	}
}

// Without a planner the refusal names the missing setting.
func TestSamplingWithoutPlanner(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{"fake": sampler(mcptest.Good, true)}})}})
	if o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "sample"}); !strings.Contains(o.text(), "--planner") {
		t.Errorf("%q, %v", o.text(), o.err)
	}
}

// A model's answer is part of the state of a later question: another pool that continues the call does not ask the model again.
func TestSamplingContinuesElsewhere(t *testing.T) {
	web := httptest.NewServer(mcptest.Web(mcptest.Modern))
	t.Cleanup(web.Close)
	servers := map[string]any{"web": map[string]any{"url": web.URL, "sampling": true}}
	p := &planner{answer: paris}
	first, second := withPlanner(t, p, Config{}, servers), withPlanner(t, p, Config{}, servers)
	v := converse(t, first.as("ann"), &mcppoolv1.CallToolRequest{McpId: "web", Name: "sampleform", CallId: "1"})
	q := v.question()
	o := invoke(t, second.as("ann"), &mcppoolv1.CallToolRequest{McpId: "web", Name: "sampleform", CallId: "2", RequestState: q.GetRequestState(), Answers: []*mcppoolv1.CallAnswer{
		{InputId: q.GetInputId(), Action: accept, ContentJson: `{"name":"Ada"}`},
	}})
	if o.err != nil || !strings.Contains(o.text(), saysParis) || !strings.Contains(o.text(), "Ada") {
		t.Errorf("%q, %v", o.text(), o.err)
	}
	if asked, _ := p.requests(); len(asked) != 1 {
		t.Errorf("asked %d times", len(asked))
	}
	if err := v.answer(q, decline, ""); err != nil {
		t.Error(err)
	}
	v.wantEnd("decline")
}

// A result that a model took part in is cached like others, and so not paid for twice.
func TestSampledResultsAreKept(t *testing.T) {
	p := &planner{answer: paris}
	s := withPlanner(t, p, Config{}, map[string]any{"fake": sampler(mcptest.Good, true, "cacheTtl", "1m", "tools", map[string]any{"sample": map[string]any{"effect": "read"}})})
	for _, kept := range []bool{false, true} {
		o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "sample"})
		if o.text() != saysParis || o.result.GetCached() != kept || (o.result.GetModelUsage() == nil) != kept {
			t.Errorf("%q, cached %v, %v, %v", o.text(), o.result.GetCached(), o.result.GetModelUsage(), o.err)
		}
	}
	if asked, _ := p.requests(); len(asked) != 1 {
		t.Errorf("asked %d times", len(asked))
	}
}

// Each request for a model is recorded, without what was said.
func TestSamplingIsAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := withPlanner(t, &planner{answer: paris}, Config{Audit: path}, map[string]any{"fake": sampler(mcptest.Good, true)})
	invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "sample", CallId: "c1", SessionId: "t1"})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	records := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r map[string]any
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r["msg"] != "model_request" {
			continue
		}
		records++
		got := fmt.Sprint(r["user"], r["session_id"], r["mcp_id"], r["tool"], r["call_id"], r["model"], r["provider_model"], r["input_tokens"], r["output_tokens"], r["reason"])
		if want := "ann t1 fake sample c1 fast m-1 11 7 "; strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") || strings.Contains(lines.Text(), "Paris") || strings.Contains(lines.Text(), "France") {
			t.Errorf("record %s", lines.Text())
		}
	}
	if records != 1 {
		t.Errorf("%d records", records)
	}
}

// Only operators may allow sampling.
func TestSamplingIsForOperators(t *testing.T) {
	s := start(t, Config{})
	web := func(id string) *mcppoolv1.McpServer {
		return &mcppoolv1.McpServer{Id: id, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "https://mcp.example.com/mcp"}}}
	}
	mine := web("mine")
	mine.Sampling = &mcppoolv1.SamplingPolicy{}
	_, err := s.as("ann").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: mine})
	wantReason(t, err, "PERMISSION_DENIED", "sampling")
	mine.Sampling = nil
	if _, err := s.as("ann").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: mine}); err != nil {
		t.Fatal(err)
	}
	mine.Sampling = &mcppoolv1.SamplingPolicy{Model: "fast", MaxTokens: 9, MaxRequests: 3}
	allow := &mcppoolv1.UpdateMcpServerRequest{McpServer: mine, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"sampling"}}}
	_, err = s.as("ann").UpdateMcpServer(t.Context(), allow)
	wantReason(t, err, "PERMISSION_DENIED", "sampling")

	all := web("all")
	all.Sampling = mine.GetSampling()
	made, err := s.as("op").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: all})
	if got := made.GetSampling(); err != nil || got.GetModel() != "fast" || got.GetMaxTokens() != 9 || got.GetMaxRequests() != 3 {
		t.Errorf("allowed: %v, %v", got, err)
	}
	made.Sampling = nil
	updated, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: made, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"sampling"}}})
	if err != nil || updated.GetSampling() != nil {
		t.Errorf("taken back: %v, %v", updated.GetSampling(), err)
	}
}
