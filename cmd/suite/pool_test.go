package suite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/cmd/suite"
	"pawl.dev/mcppool-svc/mcppool"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// The suite passes Config.Pool to its pool, except for the fields that it sets itself.
func TestPoolSettings(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	s, stop := start(t, suite.Config{Workspace: t.TempDir(), Pool: mcppool.Config{
		Audit: audit, DataDir: "of no use", Workspace: "neither", MCPConfigs: []string{"nor these"},
	}})
	stream, err := mcppoolv1.NewMcpPoolServiceClient(s.Conn()).CallTool(t.Context(), &mcppoolv1.CallToolRequest{McpId: "workspace", Name: "list_directory"})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	stop()
	if raw, err := os.ReadFile(audit); err != nil || !strings.Contains(string(raw), `"mcp_id":"workspace","tool":"list_directory"`) {
		t.Errorf("the audit has %s, %v", raw, err)
	}
	if _, err := suite.New(t.Context(), suite.Config{DataDir: t.TempDir(), Pool: mcppool.Config{MaxCalls: -1}}, nil); err == nil {
		t.Error("a limit below zero was taken")
	}
}
