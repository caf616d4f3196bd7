package mcppool

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
)

// names is the set of a response's tool names.
func names(resp *mcppoolv1.ListToolsResponse) map[string]bool {
	m := make(map[string]bool)
	for _, t := range resp.GetTools() {
		m[t.GetName()] = true
	}
	return m
}

func quarantinedTools(t *testing.T, c client) []*mcppoolv1.QuarantinedTool {
	t.Helper()
	resp := listTools(t, c, &mcppoolv1.ListToolsRequest{McpId: "fake", Quarantined: true})
	if len(resp.GetTools()) != 0 {
		t.Errorf("%d tools that can be used are listed among those that cannot", len(resp.GetTools()))
	}
	return resp.GetQuarantinedTools()
}

func wantQuarantined(t *testing.T, c client, name string) {
	t.Helper()
	o := invoke(t, c, &mcppoolv1.CallToolRequest{McpId: "fake", Name: name})
	if o.reason() != "TOOL_QUARANTINED" || o.outcome() != errs.OutcomeNotExecuted {
		t.Errorf("calling %s: %v, %s", name, o.err, o.outcome())
	}
}

// A tool that changes during a session is quarantined for all users until an operator approves exactly its new definition; the
// server's other tools stay usable.
func TestChangedToolIsQuarantined(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit")
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}, Audit: audit})
	ann, op := s.as("ann"), s.as("op")
	before := listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"})
	if before.GetQuarantinedCount() != 0 || !names(before)["info"] {
		t.Fatalf("on first use: %v", before)
	}
	for _, user := range []client{ann, op} {
		if o := invoke(t, user, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "change"}); o.err != nil {
			t.Fatal(o.err)
		}
		wantQuarantined(t, user, "info")
	}
	after := listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"})
	if names(after)["info"] || len(after.GetTools()) != len(before.GetTools())-1 || after.GetQuarantinedCount() != 1 {
		t.Errorf("%d tools are offered, %d quarantined", len(after.GetTools()), after.GetQuarantinedCount())
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count"}); o.err != nil {
		t.Error(o.err)
	}
	if before.GetCatalogHash() == after.GetCatalogHash() {
		t.Error("the catalog without the tool has the same hash")
	}
	held := quarantinedTools(t, ann)
	if len(held) != 1 || held[0].GetDefinitionJson() != mcptest.ChangedInfo || !strings.Contains(held[0].GetApprovedDefinitionJson(), "process this is.\"") {
		t.Fatalf("quarantined: %v", held)
	}
	if diff := cmp.Diff([]string{"/description", "/inputSchema/properties"}, held[0].GetChanges()); diff != "" {
		t.Error(diff)
	}

	approve := func(c client, hash string) error {
		_, err := c.ApproveTool(t.Context(), &mcppoolv1.ApproveToolRequest{McpId: "fake", Name: "info", DefinitionHash: hash})
		return err
	}
	hash := held[0].GetTool().GetDefinitionHash()
	wantReason(t, approve(ann, hash), "PERMISSION_DENIED", "operator")
	wantReason(t, approve(op, held[0].GetApprovedDefinitionHash()), "DEFINITION_CHANGED", "look at it again")
	wantQuarantined(t, ann, "info")
	if err := approve(op, hash); err != nil {
		t.Fatal(err)
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Error(o.err)
	}
	approved := listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake", NoTools: true}).GetCatalogHash()
	if approved == before.GetCatalogHash() || approved == after.GetCatalogHash() {
		t.Error("the catalog with the approved definition has the hash of an earlier one")
	}
	if records, err := os.ReadFile(audit); err != nil || !bytes.Contains(records, []byte(`"tool_approval"`)) {
		t.Errorf("the approval is not in the audit: %v", err)
	}
}

// Pins survive a restart of the pool: a renamed or changed tool is quarantined.
func TestPinsSurviveRestarts(t *testing.T) {
	data := t.TempDir()
	run := func(mode string, check func(ann, op client)) {
		t.Run(mode, func(t *testing.T) {
			s := start(t, Config{DataDir: data, MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mode})}})
			check(s.as("ann"), s.as("op"))
		})
	}
	run(mcptest.Good, func(ann, _ client) { listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"}) })
	run(mcptest.Renamed, func(ann, op client) {
		wantQuarantined(t, ann, "info2")
		held := quarantinedTools(t, ann)
		if len(held) != 1 || held[0].GetApprovedDefinitionHash() != "" || len(held[0].GetChanges()) != 0 {
			t.Fatalf("quarantined: %v", held)
		}
		_, err := op.ApproveTool(t.Context(), &mcppoolv1.ApproveToolRequest{
			McpId: "fake", Name: "info2", DefinitionHash: held[0].GetTool().GetDefinitionHash(),
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	run(mcptest.Renamed, func(ann, _ client) {
		if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info2"}); o.err != nil {
			t.Error(o.err)
		}
	})
	run(mcptest.Changed, func(ann, _ client) { wantQuarantined(t, ann, "info") })
}

// Users approve the tools of their own servers, and choose how these are pinned.
func TestPinningOfRegisteredServers(t *testing.T) {
	s := start(t, Config{})
	ann, op := s.as("ann"), s.as("op")
	server := fake("fake", mcptest.Good)
	server.OwnerSub = "ann"
	if _, err := op.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: server}); err != nil {
		t.Fatal(err)
	}
	change := func() {
		listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"})
		if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "change"}); o.err != nil {
			t.Fatal(o.err)
		}
	}
	pinning := func(p mcppoolv1.Pinning) {
		got, err := ann.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "fake", Pinning: p}})
		if err != nil || got.GetPinning() != p {
			t.Fatalf("pinning: %v, %v", got, err)
		}
	}
	change()
	wantQuarantined(t, ann, "info")
	pinning(mcppoolv1.Pinning_PINNING_TRUST_ALL)
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Error(o.err)
	}
	pinning(mcppoolv1.Pinning_PINNING_ALLOW_NEW)
	wantQuarantined(t, ann, "info")
	held := quarantinedTools(t, ann)
	_, err := ann.ApproveTool(t.Context(), &mcppoolv1.ApproveToolRequest{
		McpId: "fake", Name: "info", DefinitionHash: held[0].GetTool().GetDefinitionHash(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Error(o.err)
	}

	// Another program counts as another server: its tools are pinned at their first listing.
	other := fake("fake", mcptest.Good)
	other.GetStdio().Args = []string{"other"}
	other.OwnerSub = "ann"
	if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: other}); err != nil {
		t.Fatal(err)
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Error(o.err)
	}
}
