package mcpfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/mcpfile"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// Each key that the pool's own files may have is taken: what a file denies stays denied.
func TestEveryKey(t *testing.T) {
	got, err := mcpfile.Parse([]byte(`{"mcpServers": {"fs": {
		"command": "npx", "args": ["fs"], "env": {"A": "b"}, "cwd": "sub", "roots": ["data", "/abs", "file:///x"],
		"enabled": false, "trusted": true, "autoActivate": true, "onlyWhenNamed": true, "description": "files", "owner": "ann",
		"timeout": 90, "startTimeout": "20s", "cacheTtl": "5m", "pinning": "allow_new", "isolation": "task", "maxConnections": 3, "sampling": {"model": "fast", "maxTokens": 100, "maxRequests": 2},
		"tools": {"get_*": {"effect": "read", "idempotent": true, "risk": "medium"}},
		"permissions": [{"users": ["ann"], "tools": ["move_file"], "effects": ["write"], "decision": "deny"}, {"decision": "ask"}],
		"icon": "x", "alwaysAllow": []}}}`), "/dir")
	if err != nil {
		t.Fatal(err)
	}
	want := &mcppoolv1.McpServer{
		Id: "fs", Disabled: true, Trusted: true, AutoActivate: true, OnlyWhenNamed: true, Description: "files", OwnerSub: "ann",
		Transport: &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{
			Command: "npx", Args: []string{"fs"}, Env: map[string]string{"A": "b"}, Cwd: "/dir/sub",
		}},
		Roots:       []string{"/dir/data", "/abs", "file:///x"},
		CallTimeout: durationpb.New(90 * time.Second), StartTimeout: durationpb.New(20 * time.Second), CacheTtl: durationpb.New(5 * time.Minute),
		Pinning: mcppoolv1.Pinning_PINNING_ALLOW_NEW, Isolation: mcppoolv1.Isolation_ISOLATION_TASK, MaxConnections: 3,
		Sampling: &mcppoolv1.SamplingPolicy{Model: "fast", MaxTokens: 100, MaxRequests: 2},
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

// A transport's keys mean nothing to the other one.
func TestForeignKeysAreUnknown(t *testing.T) {
	got, err := mcpfile.Parse([]byte(`{"mcpServers": {"web": {"type": "SSE", "url": "http://x", "args": [], "timeout": null}}}`), "/dir")
	if err != nil {
		t.Fatal(err)
	}
	if !got[0].GetHttp().GetSse() || got[0].GetCallTimeout() != nil || len(got[0].Unknown) != 1 || got[0].Unknown[0] != "args" {
		t.Errorf("%v, unknown %q", got[0].McpServer, got[0].Unknown)
	}
}

func TestMalformed(t *testing.T) {
	for _, tc := range []struct{ text, says string }{
		{`"permissions": {}`, `"permissions" is not a list`},
		{`"permissions": [{"tool": ["x"], "decision": "deny"}]`, `"permissions" is not a list`},
		{`"permissions": [{"tools": ["x"], "decision": "denied"}]`, `the "decision" of rule 1 must be allow, ask or deny`},
		{`"permissions": [{"tools": ["x"]}]`, `the "decision" of rule 1`},
		{`"permissions": [{"decision": "unspecified"}]`, `the "decision" of rule 1`},
		{`"permissions": [{"tools": [""], "decision": "deny"}]`, "rule 1 names a user or a tool that is empty"},
		{`"permissions": [{"effects": ["all"], "decision": "deny"}]`, `the "effects" of rule 1`},
		{`"tools": {"x": {"effect": "reads"}}`, `the "effect" of "x" must be`},
		{`"tools": {"x": {"effect": "read", "risky": 1}}`, `"tools" is not an object`},
		{`"tools": {"x": {"effect": "read", "risk": "huge"}}`, `the "risk" of "x"`},
		{`"trusted": "yes"`, `"trusted" is not true or false`},
		{`"timeout": "soon"`, `"timeout" is neither`},
		{`"timeout": 1e99`, `"timeout" is more than 24h0m0s`},
		{`"startTimeout": 0`, `"startTimeout" is not between`},
		{`"cacheTtl": true`, `"cacheTtl" is neither`},
		{`"pinning": "some"`, `"pinning" must be one of`},
		{`"isolation": "none"`, `"isolation" must be one of`},
		{`"maxConnections": -1`, `"maxConnections" is not a whole number`},
		{`"maxConnections": 1.5`, `"maxConnections" is not a whole number`},
		{`"sampling": "fast"`, `"sampling" is not true, false`},
		{`"sampling": {"tokens": 1}`, `"sampling" is not true, false`},
		{`"sampling": {"maxTokens": -1}`, `"sampling" is not true, false`},
		{`"roots": "x"`, `"roots" is not a list`},
		{`"roots": [""]`, `"roots": folder 1 is empty`},
		{`"env": {"A": 1}`, `"env" is not an object of texts`},
		{`"args": "x"`, `"args" is not a list of texts`},
		{`"type": "http"`, `does not go with "command"`},
		{`"type": "pipe"`, `is not known`},
	} {
		_, err := mcpfile.Parse([]byte(`{"mcpServers": {"fs": {"command": "c", `+tc.text+`}}}`), "/dir")
		if err == nil || !strings.HasPrefix(err.Error(), `server "fs": `) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: want %q, got %v", tc.text, tc.says, err)
		}
	}
	for _, oauth := range []string{`{"grant": "password"}`, `{"clientID2": ""}`} {
		if _, err := mcpfile.Parse([]byte(`{"mcpServers": {"web": {"url": "http://x", "oauth": `+oauth+`}}}`), "/dir"); err == nil {
			t.Errorf("%s is taken", oauth)
		}
	}
}
