package mcppool

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

type watching = grpc.ServerStreamingClient[mcppoolv1.WatchMcpServersResponse]

func watch(t *testing.T, c mcppoolv1.McpPoolServiceClient, ids ...string) watching {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*waitLimit)
	t.Cleanup(cancel)
	stream, err := c.WatchMcpServers(ctx, &mcppoolv1.WatchMcpServersRequest{Ids: ids})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// until reads a watch until is accepts a message: how many come before it is open, since changes may be merged.
func until(t *testing.T, w watching, what string, is func(*mcppoolv1.WatchMcpServersResponse) bool) *mcppoolv1.WatchMcpServersResponse {
	t.Helper()
	for {
		m, err := w.Recv()
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if is(m) {
			return m
		}
	}
}

func state(id string, want mcppoolv1.ConnectionState) func(*mcppoolv1.WatchMcpServersResponse) bool {
	return func(m *mcppoolv1.WatchMcpServersResponse) bool {
		return m.GetMcpServer().GetId() == id && m.GetMcpServer().GetState() == want
	}
}

// TestWatchMcpServers: first a message for each visible server, then one for each kind of change, and none about other users.
func TestWatchMcpServers(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"a": mcptest.Good, "b": mcptest.Exit})}})
	ann := s.as("ann")
	w := watch(t, ann)
	for _, id := range []string{"a", "b"} {
		if m := next(t, w); m.GetMcpServer().GetId() != id || m.GetRemoved() || m.GetToolsVersion() != 0 || !m.GetMcpServer().GetActive() {
			t.Errorf("first messages: %v", m)
		}
	}
	// Connections and tools.
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "a", Name: "echo", InputJson: `{"text":"x"}`})
	ready := until(t, w, "a connection", state("a", mcppoolv1.ConnectionState_CONNECTION_STATE_READY))
	if ready.GetToolsVersion() == 0 || ready.GetMcpServer().GetServerInfo() == "" {
		t.Errorf("a ready server: %v", ready)
	}
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "a", Name: "grow"})
	until(t, w, "other tools", func(m *mcppoolv1.WatchMcpServersResponse) bool {
		return m.GetMcpServer().GetId() == "a" && m.GetToolsVersion() > ready.GetToolsVersion()
	})
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "b", Name: "echo"})
	until(t, w, "a failure", state("b", mcppoolv1.ConnectionState_CONNECTION_STATE_FAILED))
	// Ann hears nothing of another user's server and connection: her next message is about server c.
	if _, err := s.as("bob").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "bobs", Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "https://bobs.example/mcp"}}}}); err != nil {
		t.Fatal(err)
	}
	invoke(t, s.as("bob"), &mcppoolv1.CallToolRequest{McpId: "a", Name: "echo", InputJson: `{"text":"x"}`})
	op := s.as("op")
	if _, err := op.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: fake("c", mcptest.Good)}); err != nil {
		t.Fatal(err)
	}
	if m := next(t, w); m.GetMcpServer().GetId() != "c" {
		t.Errorf("after a registration: %v", m)
	}
	if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{
		McpServer: &mcppoolv1.McpServer{Id: "c", Description: "new"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"description"}}}); err != nil {
		t.Fatal(err)
	}
	if m := next(t, w); m.GetMcpServer().GetDescription() != "new" {
		t.Errorf("after a change: %v", m)
	}
	if _, err := ann.DeactivateMcpServer(t.Context(), &mcppoolv1.DeactivateMcpServerRequest{Id: "c"}); err != nil {
		t.Fatal(err)
	}
	if m := next(t, w); m.GetMcpServer().GetActive() {
		t.Errorf("after a deactivation: %v", m)
	}
	if _, err := op.DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "c"}); err != nil {
		t.Fatal(err)
	}
	if m := next(t, w); !m.GetRemoved() || m.GetMcpServer().GetId() != "c" {
		t.Errorf("after a removal: %v", m)
	}
}

// TestWatchSome: only the named servers, which must exist.
func TestWatchSome(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"a": mcptest.Good, "b": mcptest.Good})}})
	ann := s.as("ann")
	_, err := watch(t, ann, "a", "nope").Recv()
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "nope")
	w := watch(t, ann, "b")
	next(t, w)
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "a", Name: "info"})
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "b", Name: "info"})
	for {
		m := next(t, w)
		if id := m.GetMcpServer().GetId(); id != "b" {
			t.Fatalf("a message about %s", id)
		}
		if m.GetMcpServer().GetState() == mcppoolv1.ConnectionState_CONNECTION_STATE_READY {
			return
		}
	}
}

// TestSlowWatcher: a watcher that does not read delays no update, and gets the last state. A user may have 200 watchers.
func TestSlowWatcher(t *testing.T) {
	s := start(t, Config{})
	op := s.as("op")
	slow := watch(t, op)
	if _, err := op.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: fake("c", mcptest.Good)}); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		_, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "c", Description: fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	until(t, slow, "the last state", func(m *mcppoolv1.WatchMcpServersResponse) bool { return m.GetMcpServer().GetDescription() == "499" })
	for range 199 { // with the slow one, 200
		next(t, watch(t, op))
	}
	_, err := watch(t, op).Recv()
	wantReason(t, err, "LIMIT_REACHED", "200")
}

// TestRoots: an operator says which folders a server is told of; others may not.
func TestRoots(t *testing.T) {
	s := start(t, Config{})
	server := fake("c", mcptest.Offering)
	server.Roots = []string{"/srv/a", "file:///srv/b"}
	created, err := s.as("op").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: server})
	if err != nil || len(created.GetRoots()) != 2 || created.GetRoots()[0] != "file:///srv/a" {
		t.Fatalf("roots = %v, %v", created.GetRoots(), err)
	}
	ask := func() string {
		return invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "c", Name: "ask", InputJson: `{"method":"roots/list"}`}).text()
	}
	if got := ask(); got != `{"roots":[{"uri":"file:///srv/a","name":"a"},{"uri":"file:///srv/b","name":"b"}]}` {
		t.Errorf("the server is told %s", got)
	}
	_, err = s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{
		McpServer: &mcppoolv1.McpServer{Id: "c", Roots: []string{"/srv/c"}}})
	if got := ask(); err != nil || got != `{"roots":[{"uri":"file:///srv/c","name":"c"}]}` {
		t.Errorf("after a change the server is told %s, %v", got, err)
	}
	_, err = s.as("ann").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "mine", Roots: []string{"/etc"}, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://example.com/mcp"}}}})
	wantReason(t, err, "PERMISSION_DENIED", "roots")
	_, err = s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "c", Roots: []string{"work"}}})
	wantReason(t, err, "INVALID_REQUEST", "absolute path")
}
