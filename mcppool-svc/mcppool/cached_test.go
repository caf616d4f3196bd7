package mcppool

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// caching configures the fake server with a cache. effect is that of count, a tool that returns how often it was called.
func caching(t *testing.T, effect string) Config {
	return fakeWith(t, map[string]any{"cacheTtl": 60, "tools": map[string]any{
		"count": map[string]any{"effect": effect, "idempotent": true}, "fail": map[string]any{"effect": "read"}, "info": map[string]any{"effect": "write"},
		"grow": map[string]any{"effect": "read"}, "echo": map[string]any{"effect": "read"},
	}})
}

// counted calls count with the input, call id and bypass_cache of more.
func counted(t *testing.T, c mcppoolv1.McpPoolServiceClient, more *mcppoolv1.CallToolRequest) (text string, cached bool) {
	t.Helper()
	req := &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", BypassCache: more.GetBypassCache(), InputJson: more.GetInputJson(), CallId: more.GetCallId()}
	o := invoke(t, c, req)
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.text(), o.result.GetCached()
}

// D8: the result of a reading tool is cached per user and input until its TTL ends, and is marked as cached.
func TestD8ResultsOfReadingToolsAreKept(t *testing.T) {
	var now clock
	cfg := caching(t, "read")
	cfg.Audit = filepath.Join(t.TempDir(), "audit.jsonl")
	s := startWith(t, cfg, Deps{Now: now.now})
	ann := s.as("ann")
	want := func(what string, more *mcppoolv1.CallToolRequest, text string, cached bool) {
		t.Helper()
		if got, is := counted(t, ann, more); got != text || is != cached {
			t.Errorf("%s: %s, cached %v; want %s, %v", what, got, is, text, cached)
		}
	}
	want("first", nil, "1", false)
	want("again", nil, "1", true)
	want("under a name", &mcppoolv1.CallToolRequest{CallId: "c1"}, "1", true)
	want("other input", &mcppoolv1.CallToolRequest{InputJson: `{"a":1,"b":2}`}, "2", false)
	want("the same in another order", &mcppoolv1.CallToolRequest{InputJson: `{"b":2, "a":1}`}, "2", true)
	want("bypassed", &mcppoolv1.CallToolRequest{BypassCache: true}, "3", false)
	want("after that", nil, "3", true)
	now.move(time.Minute)
	want("after its time", nil, "4", false)
	if text, cached := counted(t, s.as("bob"), nil); text != "1" || cached {
		t.Errorf("another user: %s, cached %v", text, cached)
	}
	// A write over the connection may change later reads.
	textIn(t, ann, "", "info")
	want("after a write", nil, "5", false)
	// A server that says that its tools changed loses its cached results.
	textIn(t, ann, "", "grow")
	want("after list_changed", nil, "6", false)
	raw, err := os.ReadFile(cfg.Audit)
	if err != nil || strings.Count(string(raw), `"cached":true`) != 4 || !strings.Contains(string(raw), `"call_id":"c1"`) {
		t.Errorf("the audit: %v\n%s", err, raw)
	}
}

// D8: over a connection that users share, each user gets only results of that user's own calls: a tool may answer by who may see what.
func TestD8ResultsAreKeptPerUser(t *testing.T) {
	s := start(t, fakeWith(t, map[string]any{"cacheTtl": 60, "isolation": "shared", "tools": map[string]any{"count": map[string]any{"effect": "read"}}}))
	for i, user := range []string{"ann", "bob", "op"} {
		for again := range 2 {
			if text, cached := counted(t, s.as(user), nil); text != strconv.Itoa(i+1) || cached != (again == 1) {
				t.Errorf("%s, call %d: %s, cached %v", user, again+1, text, cached)
			}
		}
	}
}

// A tool that may write is never answered from the cache, even if it is idempotent, and a failure is not cached.
func TestD8WritesAreNeverKept(t *testing.T) {
	for _, effect := range []string{"write", "destructive"} {
		s := start(t, caching(t, effect))
		for i, want := range []string{"1", "2", "3"} {
			if got, cached := counted(t, s.as("ann"), nil); got != want || cached {
				t.Errorf("%s, call %d: %s, cached %v", effect, i+1, got, cached)
			}
		}
		for range 2 {
			if o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "fail"}); !o.result.GetIsError() || o.result.GetCached() {
				t.Errorf("a failure: %v, %v", o.result, o.err)
			}
		}
		if n := s.cache.Stats(); n.Hits != 0 {
			t.Errorf("%d results came from the cache", n.Hits)
		}
	}
}

// Without a cache_ttl nothing is kept.
func TestD8NothingIsKeptByDefault(t *testing.T) {
	s := start(t, fakeWith(t, map[string]any{"tools": map[string]any{"count": map[string]any{"effect": "read"}}}))
	for _, want := range []string{"1", "2"} {
		if got, cached := counted(t, s.as("ann"), nil); got != want || cached {
			t.Errorf("%s, cached %v", got, cached)
		}
	}
}

// A cached result does not bypass the checks: expected definition, input and activation are checked each time.
func TestD8KeptResultsAreChecked(t *testing.T) {
	s := start(t, caching(t, "read"))
	ann := s.as("ann")
	counted(t, ann, nil)
	for name, req := range map[string]*mcppoolv1.CallToolRequest{
		"DEFINITION_CHANGED": {McpId: "fake", Name: "count", ExpectedDefinitionHash: strings.Repeat("0", 64)},
		"INVALID_TOOL_INPUT": {McpId: "fake", Name: "echo", InputJson: `{"text":1}`},
	} {
		if o := invoke(t, ann, req); o.reason() != name {
			t.Errorf("%s: %v", name, o.err)
		}
	}
	if _, err := ann.DeactivateMcpServer(t.Context(), &mcppoolv1.DeactivateMcpServerRequest{Id: "fake"}); err != nil {
		t.Fatal(err)
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count"}); o.reason() != "MCP_SERVER_NOT_ACTIVE" {
		t.Errorf("deactivated: %v", o.err)
	}
}

// A rule that denies the tool applies even if its result is cached.
func TestD8PermissionBeforeTheCache(t *testing.T) {
	s := start(t, Config{DataDir: t.TempDir()})
	op, ann := s.as("op"), s.as("ann")
	server := fake("fake", "good")
	server.ToolPolicies = map[string]*mcppoolv1.ToolPolicy{"count": {Effect: 1}}
	create(t, op, server)
	update := func(m *mcppoolv1.McpServer) {
		t.Helper()
		m.Id = "fake"
		if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: m}); err != nil {
			t.Fatal(err)
		}
	}
	update(&mcppoolv1.McpServer{CacheTtl: durationpb.New(time.Minute)})
	counted(t, ann, nil)
	if _, cached := counted(t, ann, nil); !cached {
		t.Fatal("not kept")
	}
	update(&mcppoolv1.McpServer{Permissions: []*mcppoolv1.PermissionRule{{
		Users: []string{"ann"}, Decision: mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY,
	}}})
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count"}); o.reason() != "PERMISSION_DENIED" {
		t.Errorf("denied: %v", o.err)
	}
}

// D8: a result that depends on a person's answer is not cached: the next call asks again.
func TestD8AnswersOfPeopleAreNotKept(t *testing.T) {
	s := start(t, fakeWith(t, map[string]any{"cacheTtl": 60, "tools": map[string]any{"form": map[string]any{"effect": "read"}}}))
	for _, id := range []string{"c1", "c2"} {
		v := converse(t, s.as("ann"), &mcppoolv1.CallToolRequest{Name: "form", CallId: id})
		if err := v.answer(v.question(), accept, `{"name":"`+id+`"}`); err != nil {
			t.Fatal(err)
		}
		v.wantEnd(id)
	}
}
