package mcppool

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
)

// Each call has one record: user, tool, definition hash, argument hash, the pool's decision and the outcome. A second CallTool
// with the same id adds none. Records hold no arguments, results or messages.
func TestAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var hash string
	t.Run("calls", func(t *testing.T) {
		s := start(t, Config{Audit: path, MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good, "bad": mcptest.Exit})}})
		ann := s.as("ann")
		hash = toolNamed(t, listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetTools(), "echo").GetDefinitionHash()
		for _, req := range []*mcppoolv1.CallToolRequest{
			{McpId: "fake", Name: "echo", CallId: "1", SessionId: "t1", Epoch: 2, InputJson: `{"text":"open sesame"}`},
			{McpId: "fake", Name: "echo", CallId: "1", SessionId: "t1", Epoch: 2, InputJson: `{"text":"open sesame"}`},
			{McpId: "fake", Name: "echo", CallId: "2", InputJson: `{"text":1234567}`},
			{McpId: "fake", Name: "fail", CallId: "3"},
			{McpId: "fake", Name: "error", CallId: "4"},
			{McpId: "fake", Name: "echo", CallId: "5", SessionId: "t1", Epoch: 1, InputJson: `{"text":"open sesame"}`},
			{McpId: "bad", Name: "echo", CallId: "6", InputJson: `{"text":"open sesame"}`},
			{McpId: "nope", Name: "echo", CallId: "7"},
		} {
			invoke(t, ann, req)
		}
	})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	var got [][]any
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r map[string]any
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r["msg"] != "tool_call" || r["user"] != "ann" || r["time"] == nil || r["duration_ms"] == nil {
			t.Errorf("record %s", lines.Bytes())
		}
		for _, secret := range []string{"sesame", "1234567", "disk is full", "no such file", "database"} {
			if strings.Contains(lines.Text(), secret) {
				t.Errorf("%q is in %s", secret, lines.Bytes())
			}
		}
		if r["call_id"] == "1" {
			sum := sha256.Sum256([]byte(`{"text":"open sesame"}`))
			if r["argument_hash"] != hex.EncodeToString(sum[:]) || r["definition_hash"] != hash || r["session_id"] != "t1" {
				t.Errorf("record %s", lines.Bytes())
			}
		}
		got = append(got, []any{r["call_id"], r["mcp_id"], r["tool"], r["decision"], r["outcome"], r["reason"], r["tool_error"]})
	}
	want := [][]any{
		{"1", "fake", "echo", "allowed", errs.OutcomeKnown, "", false},
		{"2", "fake", "echo", "refused", errs.OutcomeNotExecuted, "INVALID_TOOL_INPUT", false},
		{"3", "fake", "fail", "allowed", errs.OutcomeKnown, "", true},
		{"4", "fake", "error", "allowed", errs.OutcomeKnown, "TOOL_EXECUTION_FAILED", false},
		{"5", "fake", "echo", "refused", errs.OutcomeNotExecuted, "STALE_OWNER", false},
		{"6", "bad", "echo", "none", errs.OutcomeNotExecuted, "MCP_SERVER_UNAVAILABLE", false},
		{"7", "nope", "echo", "refused", errs.OutcomeNotExecuted, "MCP_SERVER_NOT_FOUND", false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestAuditThatCannotBeWritten(t *testing.T) {
	_, err := New(t.Context(), Config{Audit: t.TempDir()}, Deps{})
	if err == nil || !strings.Contains(err.Error(), "audit") {
		t.Errorf("error = %v", err)
	}
}
