package cli_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func TestMCPTest(t *testing.T) {
	w := newWorld(t)
	w.register(stdio("files", "npx"), stdio("broken", "npx"))
	ok, failed := mcppoolv1.ServerCheck_STATUS_OK, mcppoolv1.ServerCheck_STATUS_FAILED
	reports := map[string]*mcppoolv1.TestMcpServerResponse{
		"files": {Ok: true, ServerInfo: "files 1.0", ProtocolVersion: "2025-11-25", Checks: []*mcppoolv1.ServerCheck{
			{Name: "configuration", Status: ok, Message: "registered"},
			{Name: "connect", Status: ok, Message: "files 1.0 (MCP 2025-11-25)", Duration: durationpb.New(1500 * time.Millisecond)},
			{Name: "definitions", Status: mcppoolv1.ServerCheck_STATUS_WARNING, Message: "every tool counts as one that changes things", Advice: "say what they do"},
		}},
		"broken": {Checks: []*mcppoolv1.ServerCheck{
			{Name: "command", Status: failed, Message: "command \"npx\" was not found\x1b[2J", Advice: "install it"},
			{Name: "connect", Status: mcppoolv1.ServerCheck_STATUS_SKIPPED},
		}},
	}
	clitest.On(w.pool.Script, func(req *mcppoolv1.TestMcpServerRequest, next func() (*mcppoolv1.TestMcpServerResponse, error)) (*mcppoolv1.TestMcpServerResponse, error) {
		if r := reports[req.GetId()]; r != nil {
			return r, nil
		}
		return next()
	})
	w.serveElsewhere()
	w.golden("mcp test", w.pawl("mcp", "test", "files"))
	w.golden("mcp test broken", w.pawl("mcp", "test", "broken"))
	w.golden("mcp test json", w.pawl("mcp", "test", "broken", "--json"))
	w.pawl("mcp", "test", "nope").expect(t, 1, "", `there is no MCP server "nope"`)
}

// logs scripts the logs of servers, by id.
func logs(w *world, logs map[string]*mcppoolv1.GetMcpServerLogResponse) {
	clitest.On(w.pool.Script, func(req *mcppoolv1.GetMcpServerLogRequest, _ func() (*mcppoolv1.GetMcpServerLogResponse, error)) (*mcppoolv1.GetMcpServerLogResponse, error) {
		return logs[req.GetId()], nil
	})
}

func TestMCPLogs(t *testing.T) {
	w := newWorld(t)
	w.register(stdio("files", "npx"), stdio("quiet", "npx"), stdio("new", "npx"),
		&mcppoolv1.McpServer{Id: "web", Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://x/mcp"}}})
	logs(w, map[string]*mcppoolv1.GetMcpServerLogResponse{
		"files": {Stderr: "starting\nfailed \x1b[31mbadly\n", Truncated: true, LastError: "exit status 3", ConnectTime: timestamppb.New(time.Unix(1, 0))},
		"quiet": {Connected: true, ConnectTime: timestamppb.New(time.Unix(1, 0))},
		"new":   {},
		"web":   {Connected: true, ConnectTime: timestamppb.New(time.Unix(1, 0))},
	})
	w.serveElsewhere()
	w.golden("mcp logs", w.pawl("mcp", "logs", "files"))
	w.golden("mcp logs json", w.pawl("mcp", "logs", "files", "--json"))
	w.pawl("mcp", "logs", "quiet").expect(t, 0, "", "there is no stderr of quiet to show; pawl mcp test quiet")
	w.pawl("mcp", "logs", "new").expect(t, 0, "", "pawl mcp test new checks")
	w.pawl("mcp", "logs", "web").expect(t, 0, "", "there is no stderr of web to show")
	w.tty = true
	w.golden("mcp logs tty", w.pawl("mcp", "logs", "files"))
}

func TestMCPShow(t *testing.T) {
	w := newWorld(t)
	s := stdio("files", "npx", "-y", "server-filesystem")
	s.GetStdio().Env, s.GetStdio().Cwd = map[string]string{"TOKEN": "***", "A": "***"}, "/src"
	s.DisplayName, s.Description, s.Active, s.State = "My files", "Notes", true, mcppoolv1.ConnectionState_CONNECTION_STATE_FAILED
	s.LastError, s.ServerInfo, s.Capabilities = "it ended", "secure-filesystem-server 0.2.0 (MCP 2025-11-25)", []string{"resources", "prompts"}
	s.Pinning, s.Isolation, s.Login = mcppoolv1.Pinning_PINNING_ALLOW_NEW, mcppoolv1.Isolation_ISOLATION_TASK, mcppoolv1.LoginState_LOGIN_STATE_REQUIRED
	s.CallTimeout, s.MaxConnections, s.CacheTtl, s.Roots = durationpb.New(5*time.Minute), 3, durationpb.New(time.Minute), []string{"/src/app"}
	s.StateTime = timestamppb.New(clitest.Epoch.Add(57 * time.Minute))
	s.Sampling = &mcppoolv1.SamplingPolicy{Model: "fast", MaxRequests: 3}
	s.ToolPolicies = map[string]*mcppoolv1.ToolPolicy{"*": {Effect: commonv1.Effect_EFFECT_READ, Idempotent: true, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM}}
	s.Permissions = []*mcppoolv1.PermissionRule{{Tools: []string{"drop*"}, Users: []string{"bob"}, Effects: []commonv1.Effect{commonv1.Effect_EFFECT_WRITE},
		Decision: mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY}}
	clitest.On(w.pool.Script, func(req *mcppoolv1.GetMcpServerRequest, next func() (*mcppoolv1.McpServer, error)) (*mcppoolv1.McpServer, error) {
		if req.GetId() == s.GetId() {
			return s, nil
		}
		return next()
	})
	w.serveElsewhere()
	w.golden("mcp show", w.pawl("mcp", "show", "files"))
	w.golden("mcp show json", w.pawl("mcp", "show", "files", "--json"))
	w.pawl("mcp", "show", "nope").expect(t, 1, "", `there is no MCP server "nope"`)
}

// The rules are in the order deny, ask, allow; --allow also denies all other tools.
func TestMCPAddTrust(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.pawl("mcp", "add", "wiki", "--url", "http://x/mcp", "--allow", "read_*", "--ask", "edit", "--deny", "read_secret", "--pinning", "trust-all",
		"--isolation", "shared", "--call-timeout", "5m", "--cache-ttl", "10s", "--max-connections", "3",
		"--sampling", "fast", "--sample-tokens", "500", "--sample-requests", "3").expect(t, 0, "wiki is registered", "")
	rule := func(d mcppoolv1.PermissionDecision, tools ...string) *mcppoolv1.PermissionRule {
		return &mcppoolv1.PermissionRule{Decision: d, Tools: tools}
	}
	want := &mcppoolv1.McpServer{
		Id: "wiki", Active: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://x/mcp"}},
		Pinning: mcppoolv1.Pinning_PINNING_TRUST_ALL, Isolation: mcppoolv1.Isolation_ISOLATION_SHARED,
		CallTimeout: durationpb.New(5 * time.Minute), CacheTtl: durationpb.New(10 * time.Second), MaxConnections: 3,
		Sampling: &mcppoolv1.SamplingPolicy{Model: "fast", MaxTokens: 500, MaxRequests: 3},
		Permissions: []*mcppoolv1.PermissionRule{
			rule(mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY, "read_secret"),
			rule(mcppoolv1.PermissionDecision_PERMISSION_DECISION_ASK, "edit"),
			rule(mcppoolv1.PermissionDecision_PERMISSION_DECISION_ALLOW, "read_*"),
			rule(mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY),
		},
	}
	if diff := cmp.Diff(want, w.pool.Server("wiki"), protocmp.Transform(), protocmp.IgnoreFields(want, "etag")); diff != "" {
		t.Error(diff)
	}
	w.pawl("mcp", "add", "any", "--url", "http://x/mcp", "--sampling", "any").expect(t, 0, "any is registered", "")
	if diff := cmp.Diff(&mcppoolv1.SamplingPolicy{}, w.pool.Server("any").GetSampling(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	w.pawl("mcp", "add", "x", "--url", "http://x/mcp", "--sample-tokens", "5").expect(t, 64, "", "go with --sampling")
	w.pawl("mcp", "add", "x", "--url", "http://x/mcp", "--pinning", "all").expect(t, 64, "", "--pinning")
	w.pawl("mcp", "add", "x", "--url", "http://x/mcp", "--call-timeout=-1s").expect(t, 64, "", "negative")
}
