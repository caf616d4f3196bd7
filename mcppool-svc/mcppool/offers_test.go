package mcppool

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// TestResourcesAndPrompts: the RPCs for resources, prompts and completion return what the server answers.
func TestResourcesAndPrompts(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"demo": mcptest.Offering})}})
	ann := s.as("ann")
	read, err := ann.ReadResource(t.Context(), &mcppoolv1.ReadResourceRequest{McpId: "demo", Uri: "demo://1"})
	if err != nil {
		t.Fatal(err)
	}
	want := []*mcppoolv1.Resource{
		{Uri: "demo://1", MimeType: "text/plain", Text: "one"},
		{Uri: "demo://1/raw", MimeType: "application/octet-stream", Blob: []byte{0, 1, 2}},
	}
	if diff := cmp.Diff(want, read.GetContents(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	templates, err := ann.ListResourceTemplates(t.Context(), &mcppoolv1.ListResourceTemplatesRequest{McpId: "demo"})
	if err != nil || len(templates.GetResourceTemplates()) != 1 || templates.GetResourceTemplates()[0].GetUriTemplate() != "demo://{n}" {
		t.Errorf("templates = %v, %v", templates, err)
	}
	prompt, err := ann.GetPrompt(t.Context(), &mcppoolv1.GetPromptRequest{McpId: "demo", Name: "greet", Arguments: map[string]string{"who": "Ann"}})
	if err != nil || len(prompt.GetMessages()) != 2 || prompt.GetMessages()[0].GetContent().GetText() != "Hello Ann" ||
		prompt.GetMessages()[1].GetContent().GetResource().GetText() != "one" || prompt.GetDescription() != "A greeting." {
		t.Errorf("prompt = %v, %v", prompt, err)
	}
	complete, err := ann.Complete(t.Context(), &mcppoolv1.CompleteRequest{McpId: "demo", Argument: "n", Value: "4",
		Reference: &mcppoolv1.CompleteRequest_UriTemplate{UriTemplate: "demo://{n}"}})
	if diff := cmp.Diff(&mcppoolv1.CompleteResponse{Values: []string{"4a", "4b"}, Total: 3, HasMore: true}, complete, protocmp.Transform()); diff != "" {
		t.Errorf("%s, %v", diff, err)
	}
	server, err := ann.GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "demo"})
	if diff := cmp.Diff([]string{"resources", "resource_subscriptions", "prompts", "completions", "logging"}, server.GetCapabilities()); diff != "" {
		t.Errorf("%s, %v", diff, err)
	}
}

// TestListsByPage: the pool's pages keep the server's order, and continue where the last one ended even if the list changes.
func TestListsByPage(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"demo": mcptest.Offering})}})
	ann := s.as("ann")
	req := &mcppoolv1.ListResourcesRequest{McpId: "demo", PageSize: 2}
	first, err := ann.ListResources(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	one := &mcppoolv1.ResourceInfo{Uri: "demo://1", Name: "one", Title: "One", Description: "The first.", MimeType: "text/plain", Size: 3}
	if diff := cmp.Diff(one, first.GetResources()[0], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	// The list changes between the pages.
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "demo", Name: "more"}); o.err != nil {
		t.Fatal(o.err)
	}
	req.PageToken = first.GetNextPageToken()
	second, err := ann.ListResources(t.Context(), req)
	if err != nil || len(second.GetResources()) != 2 || second.GetResources()[1].GetUri() != "demo://4" || second.GetNextPageToken() != "" {
		t.Errorf("second page = %v, %v", second, err)
	}
	_, err = s.as("bob").ListResources(t.Context(), req)
	wantReason(t, err, "INVALID_REQUEST", "page_token")
}

// TestOffersAreRefused: missing permission, unknown names, and answers that cannot be read (C3).
func TestOffersAreRefused(t *testing.T) {
	demo := mcptest.Stdio(mcptest.Offering)
	stanza := map[string]any{"command": demo.Command, "env": demo.Env}
	denied := map[string]any{"command": demo.Command, "env": demo.Env, "permissions": []map[string]any{{"users": []string{"bob"}, "decision": "deny"}}}
	tools := map[string]any{"command": demo.Command, "env": demo.Env, "permissions": []map[string]any{{"tools": []string{"t*"}, "decision": "deny"}}}
	own := map[string]any{"command": demo.Command, "env": demo.Env, "owner": "ann"}
	off := map[string]any{"command": demo.Command, "env": demo.Env, "autoActivate": false}
	s := start(t, Config{MaxToolResultBytes: 1 << 19, MCPConfigs: []string{
		fakeConfig(t, map[string]string{"plain": mcptest.Good}),
		writeConfig(t, map[string]any{"mcpServers": map[string]any{"demo": stanza, "denied": denied, "tools": tools, "own": own, "off": off}}),
	}})
	read := func(user, id, uri string) error {
		_, err := s.as(user).ReadResource(t.Context(), &mcppoolv1.ReadResourceRequest{McpId: id, Uri: uri})
		return err
	}
	prompt := func(id, name string) error {
		_, err := s.as("bob").GetPrompt(t.Context(), &mcppoolv1.GetPromptRequest{McpId: id, Name: name})
		return err
	}
	wantReason(t, read("bob", "demo", "demo://none"), "RESOURCE_NOT_FOUND", "demo://none")
	wantReason(t, prompt("demo", "none"), "PROMPT_NOT_FOUND", "none")
	wantReason(t, prompt("demo", "greet"), "INVALID_REQUEST", "Missing required argument who")
	wantReason(t, read("bob", "own", "demo://1"), "MCP_SERVER_NOT_FOUND", "own")
	wantReason(t, read("bob", "off", "demo://1"), "MCP_SERVER_NOT_ACTIVE", "activate")
	wantReason(t, read("bob", "denied", "demo://1"), "PERMISSION_DENIED", "denied")
	wantReason(t, read("bob", "plain", "demo://1"), "INVALID_REQUEST", "does not offer resources")
	wantReason(t, prompt("plain", "greet"), "INVALID_REQUEST", "does not offer prompts")
	wantReason(t, read("bob", "demo", "demo://twice"), "MCP_PROTOCOL_ERROR", "twice")
	wantReason(t, read("bob", "demo", "demo://large"), "TOO_LARGE", "1.0 MiB")
	_, err := s.as("bob").ListPrompts(t.Context(), &mcppoolv1.ListPromptsRequest{McpId: "demo"})
	wantReason(t, err, "MCP_PROTOCOL_ERROR", "entry 2")
	for user, id := range map[string]string{"ann": "denied", "bob": "tools"} { // rules for other users, or for tools
		if err := read(user, id, "demo://1"); err != nil {
			t.Errorf("%s, %s: %v", user, id, err)
		}
	}
	// A server without resources has an empty list of them.
	if none, err := s.as("bob").ListResources(t.Context(), &mcppoolv1.ListResourcesRequest{McpId: "plain"}); err != nil || len(none.GetResources()) != 0 {
		t.Errorf("resources = %v, %v", none, err)
	}
}

// next receives one message of a stream.
func next[T any](t *testing.T, s grpc.ServerStreamingClient[T]) *T {
	t.Helper()
	m, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSubscribeResource: one message once subscribed, one for each change, and one after the connection was lost.
func TestSubscribeResource(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"demo": mcptest.Offering, "plain": mcptest.Good})}})
	ann := s.as("ann")
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit*4)
	defer cancel()
	stream, err := ann.SubscribeResource(ctx, &mcppoolv1.SubscribeResourceRequest{McpId: "demo", Uri: "demo://1"})
	if err != nil {
		t.Fatal(err)
	}
	if m := next(t, stream); m.GetChanges() != 0 || m.GetUri() != "demo://1" {
		t.Errorf("first message = %v", m)
	}
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "demo", Name: "touch", InputJson: `{"uri":"demo://1/part"}`})
	if m := next(t, stream); m.GetChanges() != 1 || m.GetUri() != "demo://1/part" {
		t.Errorf("message after the first change = %v", m)
	}
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "demo", Name: "crash"})
	if m := next(t, stream); m.GetChanges() != 2 || m.GetUri() != "demo://1" {
		t.Errorf("message after the crash = %v", m)
	}
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "demo", Name: "touch", InputJson: `{"uri":"demo://1"}`})
	if m := next(t, stream); m.GetChanges() != 3 {
		t.Errorf("last message = %v", m)
	}
	if _, err := ann.DeactivateMcpServer(ctx, &mcppoolv1.DeactivateMcpServerRequest{Id: "demo"}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantReason(t, err, "MCP_SERVER_NOT_ACTIVE", "demo")

	stream, err = ann.SubscribeResource(ctx, &mcppoolv1.SubscribeResourceRequest{McpId: "plain", Uri: "demo://1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantReason(t, err, "INVALID_REQUEST", "subscriptions")
}

// TestLastStreamUnsubscribes: the server gets one subscription for all streams, and its end after the last.
func TestLastStreamUnsubscribes(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"demo": mcptest.Offering})}})
	ann := s.as("ann")
	var ends []context.CancelFunc
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit*4)
		defer cancel()
		ends = append(ends, cancel)
		stream, err := ann.SubscribeResource(ctx, &mcppoolv1.SubscribeResourceRequest{McpId: "demo", Uri: "demo://1"})
		if err != nil {
			t.Fatal(err)
		}
		next(t, stream)
	}
	known := func() string {
		return invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "demo", Name: "subscriptions"}).text()
	}
	if got := known(); got != "demo://1=1" {
		t.Errorf("the server knows %q", got)
	}
	for _, end := range ends {
		end()
	}
	for deadline := time.Now().Add(waitLimit * 4); known() != ""; {
		if time.Now().After(deadline) {
			t.Fatal("the server was never told that the last subscription ended")
		}
	}
}
