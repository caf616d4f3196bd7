package mcppool

import (
	"testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// Users whom no rule tells apart have the same catalog, whatever a request asks of it; its hash can be had without the tools. A changed configuration makes
// another catalog.
func TestCatalogsAreNamed(t *testing.T) {
	s := start(t, Config{})
	create(t, s.as("op"), fake("fake", mcptest.Good))
	hash := listTools(t, s.as("op"), &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetCatalogHash()
	for _, req := range []*mcppoolv1.ListToolsRequest{{}, {NoTools: true}, {PageSize: 1}, {Query: "echo"}, {Exact: true}} {
		req.McpId = "fake"
		page := listTools(t, s.as("op"), req)
		if got := page.GetCatalogHash(); len(got) != 64 || got != hash || req.GetNoTools() == (len(page.GetTools())+len(page.GetDefinitionsJson()) > 0) {
			t.Errorf("%v: %v", req, page)
		}
	}
	if q := listTools(t, s.as("op"), &mcppoolv1.ListToolsRequest{McpId: "fake", Quarantined: true}); q.GetCatalogHash() != "" {
		t.Errorf("the quarantined tools have the hash %s", q.GetCatalogHash())
	}
	_, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "fake", Trusted: true}})
	if err != nil {
		t.Fatal(err)
	}
	if got := listTools(t, s.as("op"), &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetCatalogHash(); got == hash {
		t.Error("another configuration has the same catalog")
	}
}

// Users share a catalog.
func TestUsersShareCatalogs(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	ann := listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetCatalogHash()
	if bob := listTools(t, s.as("bob"), &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetCatalogHash(); ann == "" || ann != bob {
		t.Errorf("the catalogs are %q and %q", ann, bob)
	}
}
