package mcppool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/mcppool"
)

// ReadServers takes each key that the pool's own files may have, so that what a file denies stays denied.
func TestReadServersTakesEveryKey(t *testing.T) {
	dir := t.TempDir()
	got, err := mcppool.ReadServers(writeServers(t, dir, `{"mcpServers": {"fs": {
		"command": "npx", "args": ["fs"], "env": {"A": "b"}, "cwd": "sub", "roots": ["data", "/abs", "file:///x"],
		"enabled": false, "trusted": true, "autoActivate": true, "onlyWhenNamed": true, "description": "files", "owner": "ann",
		"timeout": 90, "startTimeout": "20s", "cacheTtl": "5m", "pinning": "allow_new", "isolation": "task", "maxConnections": 3,
		"tools": {"get_*": {"effect": "read", "idempotent": true, "risk": "medium"}},
		"permissions": [{"users": ["ann"], "tools": ["move_file"], "effects": ["write"], "decision": "deny"}, {"decision": "ask"}],
		"icon": "x", "alwaysAllow": []}}}`), "")
	if err != nil {
		t.Fatal(err)
	}
	want := &mcppoolv1.McpServer{
		Id: "fs", Disabled: true, Trusted: true, AutoActivate: true, OnlyWhenNamed: true, Description: "files", OwnerSub: "ann",
		Transport: &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{
			Command: "npx", Args: []string{"fs"}, Env: map[string]string{"A": "b"}, Cwd: filepath.Join(dir, "sub"),
		}},
		Roots:       []string{"file://" + filepath.ToSlash(filepath.Join(dir, "data")), "file:///abs", "file:///x"},
		CallTimeout: durationpb.New(90 * time.Second), StartTimeout: durationpb.New(20 * time.Second), CacheTtl: durationpb.New(5 * time.Minute),
		Pinning: mcppoolv1.Pinning_PINNING_ALLOW_NEW, Isolation: mcppoolv1.Isolation_ISOLATION_TASK, MaxConnections: 3,
		ToolPolicies: map[string]*mcppoolv1.ToolPolicy{
			"get_*": {Effect: commonv1.Effect_EFFECT_READ, Idempotent: true, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM},
		},
		Permissions: []*mcppoolv1.PermissionRule{
			{
				Users: []string{"ann"}, Tools: []string{"move_file"}, Effects: []commonv1.Effect{commonv1.Effect_EFFECT_WRITE},
				Decision: mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY,
			},
			{Decision: mcppoolv1.PermissionDecision_PERMISSION_DECISION_ASK},
		},
	}
	if diff := cmp.Diff(want, got[0].McpServer, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"alwaysAllow", "icon"}, got[0].Unknown); diff != "" {
		t.Error(diff)
	}
}

// Keys of another transport are reported as unknown.
func TestReadServersNamesForeignKeys(t *testing.T) {
	dir := t.TempDir()
	got, err := mcppool.ReadServers(writeServers(t, dir, `{"mcpServers": {"web": {"type": "SSE", "url": "http://x", "args": [], "timeout": null}}}`), "")
	if err != nil {
		t.Fatal(err)
	}
	if !got[0].GetHttp().GetSse() || got[0].GetCallTimeout() != nil || len(got[0].Unknown) != 1 || got[0].Unknown[0] != "args" {
		t.Errorf("%v, unknown %q", got[0].McpServer, got[0].Unknown)
	}
}

// An error names file, line and server.
func TestReadServersSaysWhereItFails(t *testing.T) {
	dir := t.TempDir()
	for text, says := range map[string]string{
		"{\"mcpServers\": {\n  \"fs\": {\"command\": \"c\", \"pinning\": \"some\"}}}": `mcp.json:2: MCP server "fs": "pinning" must be one of`,
		"{\"mcpServers\":\n {": "mcp.json:2:3: this is not valid JSON",
		`{"mcpServers": {}}`:   "mcp.json: there are no servers in it",
	} {
		_, err := mcppool.ReadServers(writeServers(t, dir, text), "")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: want %q, got %v", text, says, err)
		}
	}
}

func writeServers(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
