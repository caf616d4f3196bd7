package mcppool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
)

// D9: a denied tool is neither offered nor called, and a tool that a rule asks about has at least MEDIUM risk; each by user.
func TestPermissions(t *testing.T) {
	child := mcptest.Stdio(mcptest.Good)
	s := start(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{"fake": map[string]any{
		"command": child.Command, "env": child.Env, "trusted": true,
		"permissions": []any{
			map[string]any{"users": []string{"ann"}, "tools": []string{"inf*"}, "decision": "deny"},
			map[string]any{"effects": []string{"read"}, "users": []string{"bob"}, "decision": "ask"},
		},
	}}})}})
	ann, bob := s.as("ann"), s.as("bob")
	if names(listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"}))["info"] {
		t.Error("a denied tool is offered")
	}
	o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"})
	if o.reason() != "PERMISSION_DENIED" || o.outcome() != errs.OutcomeNotExecuted {
		t.Errorf("a denied call: %v, %s", o.err, o.outcome())
	}
	if o := invoke(t, bob, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Error(o.err)
	}
	catalogs := map[string]bool{}
	for _, user := range []string{"ann", "bob", "op"} {
		catalogs[listTools(t, s.as(user), &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetCatalogHash()] = true
	}
	if len(catalogs) != 3 {
		t.Errorf("users with different rules have the same catalog: %v", catalogs)
	}
	for user, want := range map[client]commonv1.RiskLevel{ann: commonv1.RiskLevel_RISK_LEVEL_LOW, bob: commonv1.RiskLevel_RISK_LEVEL_MEDIUM} {
		for _, tool := range listTools(t, user, &mcppoolv1.ListToolsRequest{McpId: "fake", Query: "echo"}).GetTools() {
			if tool.GetName() == "echo" && tool.GetRiskFloor() != want {
				t.Errorf("the risk of echo is %v, want %v", tool.GetRiskFloor(), want)
			}
		}
	}
}

// Only operators may write and see the rules of registered servers. Rules are stored, and apply from the next call on.
func TestPermissionsOfRegisteredServers(t *testing.T) {
	data := t.TempDir()
	rules := []*mcppoolv1.PermissionRule{{
		Users: []string{"ann"}, Tools: []string{"info"}, Effects: []commonv1.Effect{commonv1.Effect_EFFECT_WRITE},
		Decision: mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY,
	}}
	t.Run("written", func(t *testing.T) {
		s := start(t, Config{DataDir: data})
		ann, op := s.as("ann"), s.as("op")
		create(t, op, fake("fake", mcptest.Good))
		if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
			t.Fatal(o.err)
		}
		update := &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "fake", Permissions: rules}}
		if _, err := op.UpdateMcpServer(t.Context(), update); err != nil {
			t.Fatal(err)
		}
		if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.reason() != "PERMISSION_DENIED" {
			t.Errorf("after the change: %v", o.err)
		}
		own := web("own", "https://a.example/mcp", nil)
		own.Permissions = rules
		_, err := ann.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: own})
		wantReason(t, err, "PERMISSION_DENIED", "permissions")
	})
	t.Run("kept", func(t *testing.T) {
		s := start(t, Config{DataDir: data})
		for user, want := range map[string][]*mcppoolv1.PermissionRule{"op": rules, "ann": nil} {
			got, err := s.as(user).GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "fake"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.GetPermissions(), protocmp.Transform()); diff != "" {
				t.Errorf("%s sees %s", user, diff)
			}
		}
	})
}
