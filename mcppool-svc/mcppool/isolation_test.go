package mcppool

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
)

// fakeWith configures the fake server; more holds further keys. The tool info returns its process id, count the number of its calls.
func fakeWith(t *testing.T, more map[string]any) Config {
	child := mcptest.Stdio(mcptest.Good)
	server := map[string]any{"command": child.Command, "env": child.Env}
	for k, v := range more {
		server[k] = v
	}
	return Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{"fake": server}})}}
}

// textIn calls a tool for a session and returns its text.
func textIn(t *testing.T, c mcppoolv1.McpPoolServiceClient, session, tool string) string {
	t.Helper()
	o := invoke(t, c, &mcppoolv1.CallToolRequest{McpId: "fake", Name: tool, SessionId: session})
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.text()
}

// A23: only users and tasks that may share a connection share it; the end of a task closes no other task's connection.
func TestA23Isolation(t *testing.T) {
	for isolation, shares := range map[string]struct{ tasks, users, outlives bool }{
		"user": {tasks: true, outlives: true}, "task": {}, "shared": {tasks: true, users: true, outlives: true},
	} {
		t.Run(isolation, func(t *testing.T) {
			s := start(t, fakeWith(t, map[string]any{"isolation": isolation}))
			ann, bob := s.as("ann"), s.as("bob")
			pid := textIn(t, ann, "t1", "info")
			if textIn(t, ann, "t1", "count") != "1" || textIn(t, ann, "t1", "count") != "2" {
				t.Error("a task's own calls do not share a session")
			}
			if got := textIn(t, ann, "t2", "info") == pid; got != shares.tasks {
				t.Errorf("two tasks share: %v", got)
			}
			if got := textIn(t, bob, "t1", "info") == pid; got != shares.users {
				t.Errorf("two users share: %v", got)
			}
			if got := textIn(t, ann, "t2", "count") == "3"; got != shares.tasks {
				t.Errorf("the server remembers one task's calls for another: %v", got)
			}
			other := textIn(t, ann, "t2", "info")
			if _, err := ann.ReleaseSession(t.Context(), &mcppoolv1.ReleaseSessionRequest{SessionId: "t1"}); err != nil {
				t.Fatal(err)
			}
			if textIn(t, ann, "t2", "info") != other {
				t.Error("a task's end closed what another one uses")
			}
			if got := textIn(t, ann, "t1", "info") == pid; got != shares.outlives {
				t.Errorf("the connection outlives its task: %v", got)
			}
		})
	}
}

// A server's max_connections counts the connections of all users.
func TestConnectionLimitOfAServer(t *testing.T) {
	s := start(t, fakeWith(t, map[string]any{"maxConnections": 1}))
	textIn(t, s.as("ann"), "t1", "info")
	o := invoke(t, s.as("bob"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"})
	if o.reason() != "LIMIT_REACHED" || o.outcome() != errs.OutcomeNotExecuted {
		t.Errorf("bob: %v, %s", o.err, o.outcome())
	}
	if _, err := s.as("ann").ReleaseSession(t.Context(), &mcppoolv1.ReleaseSessionRequest{SessionId: "t1"}); err != nil {
		t.Fatal(err)
	}
	textIn(t, s.as("bob"), "t1", "info") // ann's connection, now idle, made way
}

// Only an operator may set isolation, max_connections and cache_ttl. They are stored, and a change applies at once.
func TestSharingIsForOperators(t *testing.T) {
	data := t.TempDir()
	t.Run("written", func(t *testing.T) {
		s := start(t, Config{DataDir: data})
		op, ann := s.as("op"), s.as("ann")
		server := fake("fake", mcptest.Good)
		server.Isolation, server.MaxConnections, server.CacheTtl = mcppoolv1.Isolation_ISOLATION_SHARED, 7, durationpb.New(1e9)
		create(t, op, server)
		if textIn(t, ann, "", "info") != textIn(t, s.as("bob"), "", "info") {
			t.Error("not shared")
		}
		own := web("own", "https://example.com/mcp", nil)
		own.Isolation = mcppoolv1.Isolation_ISOLATION_SHARED
		_, err := ann.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: own})
		wantReason(t, err, "PERMISSION_DENIED", "isolation")
		own.Isolation = 0
		create(t, ann, own)
		for _, change := range []*mcppoolv1.McpServer{
			{Id: "own", Isolation: mcppoolv1.Isolation_ISOLATION_TASK}, {Id: "own", MaxConnections: 1}, {Id: "own", CacheTtl: durationpb.New(1e9)},
		} {
			_, err := ann.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: change})
			wantReason(t, err, "PERMISSION_DENIED", "cache_ttl")
		}
	})
	s := start(t, Config{DataDir: data})
	got, err := s.as("op").GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "fake"})
	if err != nil || got.GetIsolation() != mcppoolv1.Isolation_ISOLATION_SHARED || got.GetMaxConnections() != 7 || got.GetCacheTtl().AsDuration() != 1e9 {
		t.Errorf("after a restart: %v, %v", got, err)
	}
	before := textIn(t, s.as("ann"), "", "info")
	if _, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "fake", Isolation: mcppoolv1.Isolation_ISOLATION_USER,
	}}); err != nil {
		t.Fatal(err)
	}
	if textIn(t, s.as("ann"), "", "info") == before {
		t.Error("the shared connection is used after the isolation changed to user")
	}
}

// Invalid sharing settings in a file are an error.
func TestSharingInFiles(t *testing.T) {
	for key, value := range map[string]any{"isolation": "team", "maxConnections": -1, "cacheTtl": "a while"} {
		_, err := New(context.Background(), fakeWith(t, map[string]any{key: value}), Deps{})
		if err == nil {
			t.Errorf("%s: %v was taken", key, value)
			continue
		}
		var e *errs.Error
		if errors.As(err, &e) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
