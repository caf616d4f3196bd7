package mcppool

import (
	"context"
	"encoding/json"

	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/serve"
)

func listTools(t *testing.T, c mcppoolv1.McpPoolServiceClient, req *mcppoolv1.ListToolsRequest) *mcppoolv1.ListToolsResponse {
	t.Helper()
	resp, err := c.ListTools(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func toolNamed(t *testing.T, tools []*commonv1.Tool, name string) *commonv1.Tool {
	t.Helper()
	for _, tool := range tools {
		if tool.GetName() == name {
			return tool
		}
	}
	t.Fatalf("there is no tool %s", name)
	return nil
}

func TestListToolsKeepsDefinitionsExactly(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	resp := listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "fake"})
	echo := toolNamed(t, resp.GetTools(), "echo")
	var def struct{ InputSchema json.RawMessage }
	if err := json.Unmarshal([]byte(mcptest.EchoDefinition), &def); err != nil {
		t.Fatal(err)
	}
	want := &commonv1.Tool{
		Id: "fake/echo", McpId: "fake", Name: "echo", Title: "Echo", Description: "Says it again.",
		InputSchemaJson: string(def.InputSchema),
		// The annotations say read-only, but the server is not marked as trusted.
		Effect: commonv1.Effect_EFFECT_WRITE, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM,
		DefinitionHash: echo.GetDefinitionHash(), ConfigRevision: echo.GetConfigRevision(),
	}
	if diff := cmp.Diff(want, echo, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if len(echo.GetDefinitionHash()) != 64 {
		t.Errorf("hash = %q", echo.GetDefinitionHash())
	}
}

func TestListToolsPagesAndSearches(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	all := listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "fake"})
	var names []string
	for token := ""; ; {
		resp := listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "fake", PageSize: 7, PageToken: token})
		for _, tool := range resp.GetTools() {
			names = append(names, tool.GetName())
		}
		if token = resp.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(names) != len(all.GetTools()) || len(names) < 19 {
		t.Errorf("paged: %d tools, at once: %d", len(names), len(all.GetTools()))
	}
	for i := 1; i < len(names); i++ {
		if names[i-1] >= names[i] {
			t.Errorf("%s comes before %s", names[i-1], names[i])
		}
	}
	found := listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "fake", Query: "REPORTS progress"})
	if len(found.GetTools()) != 1 || found.GetTools()[0].GetName() != "steps" {
		t.Errorf("found %v", found.GetTools())
	}
	first := listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "fake", PageSize: 1})
	_, err := s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "fake", Query: "x", PageToken: first.GetNextPageToken()})
	wantReason(t, err, "INVALID_REQUEST", "page_token")
}

func TestEffects(t *testing.T) {
	stdio := mcptest.Stdio(mcptest.Good)
	server := func(more map[string]any) map[string]any {
		more["command"], more["env"] = stdio.Command, stdio.Env
		return more
	}
	s := start(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{
		"trusted": server(map[string]any{"trusted": true}),
		"policy": server(map[string]any{"trusted": true, "tools": map[string]any{
			"echo": map[string]any{"effect": "destructive", "risk": "low"}, "*": map[string]any{"effect": "read"},
		}}),
	}})}})
	const read, write, destructive = commonv1.Effect_EFFECT_READ, commonv1.Effect_EFFECT_WRITE, commonv1.Effect_EFFECT_DESTRUCTIVE
	const low, medium, high = commonv1.RiskLevel_RISK_LEVEL_LOW, commonv1.RiskLevel_RISK_LEVEL_MEDIUM, commonv1.RiskLevel_RISK_LEVEL_HIGH
	tests := []struct {
		server, tool string
		effect       commonv1.Effect
		idempotent   bool
		floor        commonv1.RiskLevel
	}{
		{"trusted", "echo", read, true, low},
		{"trusted", "steps", write, true, medium},
		{"trusted", "drop/it:all", destructive, false, high},
		{"trusted", "hang", write, false, medium}, // it has no annotations
		{"policy", "echo", destructive, false, low},
		{"policy", "drop/it:all", read, false, low},
	}
	for _, tt := range tests {
		tool := toolNamed(t, listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: tt.server}).GetTools(), tt.tool)
		if tool.GetEffect() != tt.effect || tool.GetIdempotent() != tt.idempotent || tool.GetRiskFloor() != tt.floor {
			t.Errorf("%s/%s: %v, idempotent %v, floor %v", tt.server, tt.tool, tool.GetEffect(), tool.GetIdempotent(), tool.GetRiskFloor())
		}
	}
}

func TestCallTool(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	ann := s.as("ann")

	o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", CallId: "c1", InputJson: `{"text": "a", "n": 9007199254740993}`})
	if o.err != nil || o.text() != `{"text":"a","n":9007199254740993}` || o.result.GetCallId() != "c1" || o.result.GetDuration() == nil {
		t.Errorf("echo: %+v", o)
	}
	input, err := structpb.NewStruct(map[string]any{"text": "b"})
	if err != nil {
		t.Fatal(err)
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", Input: input}); o.text() != `{"text":"b"}` || o.result.GetCallId() == "" {
		t.Errorf("Struct input: %+v", o)
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "fail"}); o.err != nil || !o.result.GetIsError() || o.text() != "no such file" {
		t.Errorf("fail: %+v", o)
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "sum"}); o.err != nil || o.result.GetStructuredJson() != `{"sum": 12345678901234567890}` {
		t.Errorf("sum: %+v", o)
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "drop/it:all"}); o.text() != "dropped" {
		t.Errorf("a name with slash and colon: %+v", o)
	}
}

func TestCallToolContentOfEveryKind(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "content"})
	want := []*mcppoolv1.Content{
		{Kind: &mcppoolv1.Content_Text{Text: "hello"}},
		{Kind: &mcppoolv1.Content_Image{Image: &mcppoolv1.Blob{Data: []byte{0, 1, 2}, MimeType: "image/png"}}},
		{Kind: &mcppoolv1.Content_Audio{Audio: &mcppoolv1.Blob{Data: []byte{3, 4}, MimeType: "audio/wav"}}},
		{Kind: &mcppoolv1.Content_Resource{Resource: &mcppoolv1.Resource{Uri: "file:///a", MimeType: "text/plain", Text: "A"}}},
		{Kind: &mcppoolv1.Content_Resource{Resource: &mcppoolv1.Resource{Uri: "file:///b", Blob: []byte{6, 7}}}},
		{Kind: &mcppoolv1.Content_ResourceLink{ResourceLink: &mcppoolv1.ResourceLink{
			Uri: "file:///c", Name: "c", Description: "the third", MimeType: "text/plain",
		}}},
	}
	if diff := cmp.Diff(want, o.result.GetContent(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// Of progress that comes faster than every 25 ms a client gets the newest. The last one, and the log after it, come before the result.
func TestCallToolStreamsProgressAndLogs(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "steps"})
	want := []*mcppoolv1.CallToolResponse{
		{Event: &mcppoolv1.CallToolResponse_Progress{Progress: &mcppoolv1.CallProgress{Progress: 3, Total: 3, Message: "step 3"}}},
		{Event: &mcppoolv1.CallToolResponse_Log{Log: &mcppoolv1.CallLog{Level: "warning", Logger: "fake", DataJson: `{"careful":true}`}}},
	}
	if diff := cmp.Diff(want, o.events[max(0, len(o.events)-2):], protocmp.Transform()); diff != "" || len(o.events) > 4 {
		t.Error(len(o.events), diff)
	}
}

// Every failure states its outcome.
func TestCallToolOutcomes(t *testing.T) {
	s := start(t, Config{MaxMessageBytes: 1 << 20, MCPConfigs: []string{fakeConfig(t, map[string]string{
		"fake": mcptest.Good, "exits": mcptest.Exit, "rubbish": mcptest.Rubbish, "twins": mcptest.Twins, "twokeys": mcptest.TwoKeys,
		"listerror": mcptest.ListError, "unreadstdin": mcptest.UnreadStdin,
	})}})
	const notExecuted, unknown, known = errs.OutcomeNotExecuted, errs.OutcomeUnknown, "KNOWN"
	brief := durationpb.New(100 * time.Millisecond)
	tests := []struct {
		name    string
		req     *mcppoolv1.CallToolRequest
		code    codes.Code
		reason  string
		outcome string
		text    string
	}{
		{"no such server", &mcppoolv1.CallToolRequest{McpId: "nope", Name: "echo"}, codes.NotFound, "MCP_SERVER_NOT_FOUND", notExecuted, "pawl mcp list"},
		{"no such tool", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "nope"}, codes.NotFound, "TOOL_NOT_FOUND", notExecuted, "pawl mcp tools fake"},
		{"input does not fit", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", InputJson: `{"n":"x","z":1}`}, codes.InvalidArgument, "INVALID_TOOL_INPUT", notExecuted, "text"},
		{"input is no object", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", InputJson: `[1]`}, codes.InvalidArgument, "INVALID_REQUEST", notExecuted, "object"},
		{"schema is broken", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "lookahead"}, codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", notExecuted, "schema"},
		{"other definition", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info", ExpectedDefinitionHash: "00"}, codes.FailedPrecondition, "DEFINITION_CHANGED", notExecuted, "list the tools again"},
		{"server exits at start", &mcppoolv1.CallToolRequest{McpId: "exits", Name: "echo"}, codes.Unavailable, "MCP_SERVER_UNAVAILABLE", notExecuted, "the database is missing"},
		{"server writes rubbish", &mcppoolv1.CallToolRequest{McpId: "rubbish", Name: "echo"}, codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", notExecuted, "Welcome"},
		{"two tools of one name", &mcppoolv1.CallToolRequest{McpId: "twins", Name: "a"}, codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", notExecuted, "two tools"},
		{"two keys of one name", &mcppoolv1.CallToolRequest{McpId: "twokeys", Name: "safe"}, codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", notExecuted, "comes twice"},
		{"tools/list fails", &mcppoolv1.CallToolRequest{McpId: "listerror", Name: "a"}, codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", notExecuted, "the index is broken"},
		{"JSON-RPC error", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "error"}, codes.FailedPrecondition, "TOOL_EXECUTION_FAILED", known, "the disk is full"},
		{"not a tool result", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "odd"}, codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", known, "the tool ran"},
		{"result breaks its schema", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "badsum"}, codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", known, "do not call it again"},
		{"timeout", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "hang", Timeout: brief}, codes.DeadlineExceeded, "TIMEOUT", unknown, "call_timeout"},
		{"too large", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "large", InputJson: `{"n":2000000}`}, codes.ResourceExhausted, "TOO_LARGE", known, "1 MiB"},
		{"server dies", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "crash"}, codes.Unavailable, "MCP_SERVER_UNAVAILABLE", unknown, "out of memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := invoke(t, s.as("ann"), tt.req)
			if status.Code(o.err) != tt.code || o.reason() != tt.reason || o.outcome() != tt.outcome {
				t.Errorf("got %v %s %s (%v), want %v %s %s", status.Code(o.err), o.reason(), o.outcome(), o.err, tt.code, tt.reason, tt.outcome)
			}
			if !strings.Contains(status.Convert(o.err).Message(), tt.text) {
				t.Errorf("message %q lacks %q", status.Convert(o.err).Message(), tt.text)
			}
		})
	}
	// The crash was the last case: the next call starts a new process.
	if o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Error(o.err)
	}
}

func TestInvalidInputNamesEveryProblem(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", InputJson: `{"n":"x","z":1}`})
	if v := errs.From(o.err).Violations; len(v) < 3 {
		t.Errorf("violations = %v; want those of text, n and z", v)
	}
}

func TestConnectionIsReplacedAfterADeath(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	ann := s.as("ann")
	before := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}).text()
	kill(t, mustAtoi(t, before))
	mcptest.Gone(mustAtoi(t, before), waitLimit)
	after := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"})
	if after.err != nil || after.text() == before {
		t.Errorf("after the death: %q, %v", after.text(), after.err)
	}
}

func TestNewToolsAreSeen(t *testing.T) {
	child := mcptest.Stdio(mcptest.Good)
	s := start(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{
		"fake": map[string]any{"command": child.Command, "env": child.Env, "pinning": "allow_new"},
	}})}})
	ann := s.as("ann")
	before := len(listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetTools())
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "grow"}); o.err != nil {
		t.Fatal(o.err)
	}
	after := listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetTools()
	if len(after) != before+1 {
		t.Errorf("%d tools before, %d after notifications/tools/list_changed", before, len(after))
	}
}

// running starts a call of a tool that logs when it runs (wait, hang, hold), and returns once it does.
func running(ctx context.Context, t *testing.T, c mcppoolv1.McpPoolServiceClient, tool, callID string) (ended <-chan reply) {
	t.Helper()
	stream, err := c.CallTool(ctx, &mcppoolv1.CallToolRequest{McpId: "fake", Name: tool, CallId: callID})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetLog() == nil {
		t.Fatalf("first message: %v, %v", m, err)
	}
	ch := make(chan reply, 1)
	go func() { ch <- drain(stream) }()
	return ch
}

func TestCancelCall(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	ended := running(t.Context(), t, s.as("ann"), "wait", "c1")

	_, err := s.as("bob").CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: "c1"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("another user's call: %v", err)
	}
	if _, err := s.as("ann").CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: "c1", Reason: "changed my mind"}); err != nil {
		t.Error(err)
	}
	if o := <-ended; o.err != nil || o.text() != "stopped in time" {
		t.Errorf("the server's answer to the cancellation is lost: %+v", o)
	}
	_, err = s.as("ann").CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: "c1"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("a call that ended: %v", err)
	}
}

func TestCancelCallThatTheServerIgnores(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	ended := running(t.Context(), t, s.as("ann"), "hang", "c1")
	if err := cancelCall(t, s.as("ann"), "c1"); err != nil {
		t.Fatal(err)
	}
	// The tool never answers: only the cancellation can end the call before its timeout.
	if o := <-ended; o.reason() != "CANCELLED" || o.outcome() != errs.OutcomeUnknown {
		t.Errorf("got %+v", o)
	}
}

func cancelCall(t *testing.T, c mcppoolv1.McpPoolServiceClient, id string) error {
	t.Helper()
	_, err := c.CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: id})
	return err
}

func TestClosingTheStreamCancels(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := running(ctx, t, s.as("ann"), "wait", "c1")
	cancel()
	<-ended
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for status.Code(cancelCall(t, s.as("ann"), "c1")) != codes.NotFound { // until it has ended
		<-tick.C
	}
}

func TestMetaSaysWhichCallItIs(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "meta", CallId: "t/1/1", IdempotencyKey: "k-1"})
	var meta map[string]any
	if err := json.Unmarshal([]byte(o.text()), &meta); err != nil {
		t.Fatal(err, o)
	}
	if meta["pawl.dev/call-id"] != "t/1/1" || meta["pawl.dev/idempotency-key"] != "k-1" || meta["progressToken"] == nil {
		t.Errorf("_meta = %v", meta)
	}
}

func TestFloodDoesNotHoldUpTheConnection(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	ann := s.as("ann")
	stream, err := ann.CallTool(t.Context(), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "flood", InputJson: `{"n":20000}`})
	if err != nil {
		t.Fatal(err)
	}
	// The flood is not read while other calls use the same connection.
	for range 5 {
		if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
			t.Fatal(o.err)
		}
	}
	o := drain(stream)
	if o.err != nil || o.text() != "flooded" {
		t.Errorf("flood: %v, %q", o.err, o.text())
	}
	if n := len(o.events); n == 0 || n > 1000 || o.events[n-1].GetProgress().GetProgress() != 19_999 {
		t.Errorf("of 20000 notifications %d came, the last %v", n, o.events[max(0, n-1)])
	}
	last := 0.0
	for _, e := range o.events {
		if p := e.GetProgress().GetProgress(); p < last {
			t.Fatalf("progress went back from %v to %v", last, p)
		} else {
			last = p
		}
	}
}

func TestConcurrentCalls(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			want := `{"text":"` + strconv.Itoa(i) + `"}`
			o := invokeCtx(t.Context(), s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", InputJson: want})
			if o.err != nil || o.text() != want {
				t.Errorf("call %d: %q, %v", i, o.text(), o.err)
			}
		})
	}
	wg.Wait()
}

// A pool that stops lets running calls end, and reports an unknown outcome for those that it cuts off.
func TestStopDrainsCalls(t *testing.T) {
	service, err := New(t.Context(), Config{
		DrainTimeout: 100 * time.Millisecond, MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})},
	}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	local := mcppoolv1.NewMcpPoolServiceClient(grpctest.Serve(t, service.Register, serve.Options{}))
	answers := running(t.Context(), t, local, "wait", "answers when cancelled")
	hangs := running(t.Context(), t, local, "hang", "never answers")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := service.Run(ctx); err != nil {
		t.Error(err)
	}
	if o := <-answers; o.err != nil || o.text() != "stopped in time" {
		t.Errorf("a call that the server ended: %+v", o)
	}
	if o := <-hangs; o.reason() != "SHUTTING_DOWN" || o.outcome() != errs.OutcomeUnknown {
		t.Errorf("a call that was cut off: %+v", o)
	}
	if o := invoke(t, local, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.reason() != "SHUTTING_DOWN" || o.outcome() != errs.OutcomeNotExecuted {
		t.Errorf("a call after that: %+v", o)
	}
}
