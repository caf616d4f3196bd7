package test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// everythingElse uses what server-everything offers besides tools.
func everythingElse(t *testing.T, pool mcppoolv1.McpPoolServiceClient, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	list, err := pool.ListResources(ctx, &mcppoolv1.ListResourcesRequest{McpId: id, PageSize: 1})
	if err != nil || len(list.GetResources()) != 1 || list.GetNextPageToken() == "" {
		t.Fatalf("resources: %v, %v", list, err)
	}
	uri := list.GetResources()[0].GetUri()
	if read, err := pool.ReadResource(ctx, &mcppoolv1.ReadResourceRequest{McpId: id, Uri: uri}); err != nil || read.GetContents()[0].GetText() == "" {
		t.Errorf("resource %s: %v, %v", uri, read, err)
	}
	if _, err := pool.ReadResource(ctx, &mcppoolv1.ReadResourceRequest{McpId: id, Uri: "demo://none"}); status.Code(err) != codes.NotFound {
		t.Errorf("a resource that is not there: %v", err)
	}
	if templates, err := pool.ListResourceTemplates(ctx, &mcppoolv1.ListResourceTemplatesRequest{McpId: id}); err != nil || len(templates.GetResourceTemplates()) == 0 {
		t.Errorf("templates: %v, %v", templates, err)
	}
	prompt, err := pool.GetPrompt(ctx, &mcppoolv1.GetPromptRequest{McpId: id, Name: "args-prompt", Arguments: map[string]string{"city": "Ulm"}})
	if err != nil || !strings.Contains(prompt.GetMessages()[0].GetContent().GetText(), "Ulm") {
		t.Errorf("prompt: %v, %v", prompt, err)
	}
	complete, err := pool.Complete(ctx, &mcppoolv1.CompleteRequest{McpId: id, Argument: "department", Value: "E",
		Reference: &mcppoolv1.CompleteRequest_Prompt{Prompt: "completable-prompt"}})
	if err != nil || len(complete.GetValues()) == 0 || complete.GetValues()[0] != "Engineering" {
		t.Errorf("completion: %v, %v", complete, err)
	}
	changes, err := pool.SubscribeResource(ctx, &mcppoolv1.SubscribeResourceRequest{McpId: id, Uri: uri})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := changes.Recv(); err != nil || first.GetChanges() != 0 {
		t.Fatalf("subscription: %v, %v", first, err)
	}
	toggle := use{tool: "toggle-subscriber-updates", wants: []string{"Started"}}
	toggle.judge(t, (&visitor{pool: pool, id: id, prefix: "else/"}).use(ctx, toggle)) // from now on it says that something changed, every few seconds
	if next, err := changes.Recv(); err != nil || next.GetChanges() != 1 || next.GetUri() != uri {
		t.Errorf("a change: %v, %v", next, err)
	}
}
