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

// remembering configures the fake server, whose tools say which process they are and how often they were called, with more.
func remembering(t *testing.T, more map[string]any) Config {
	child := mcptest.Stdio(mcptest.Good)
	server := map[string]any{"command": child.Command, "env": child.Env}
	for k, v := range more {
		server[k] = v
	}
	return Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{"fake": server}})}}
}

// told is what a tool says to a task.
func told(t *testing.T, c mcppoolv1.McpPoolServiceClient, task, tool string) string {
	t.Helper()
	o := invoke(t, c, &mcppoolv1.CallToolRequest{McpId: "fake", Name: tool, SessionId: task})
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.text()
}

// A23, shown by a server that counts and remembers: only the users who may share a connection share it; the end of
// a task ends its own connection alone.
func TestA23Isolation(t *testing.T) {
	for isolation, shares := range map[string]struct{ tasks, users, outlives bool }{
		"user": {tasks: true, outlives: true}, "task": {}, "shared": {tasks: true, users: true, outlives: true},
	} {
		t.Run(isolation, func(t *testing.T) {
			s := start(t, remembering(t, map[string]any{"isolation": isolation}))
			ann, bob := s.as("ann"), s.as("bob")
			pid := told(t, ann, "t1", "info")
			if told(t, ann, "t1", "count") != "1" || told(t, ann, "t1", "count") != "2" {
				t.Error("a task's own calls do not share a session")
			}
			if got := told(t, ann, "t2", "info") == pid; got != shares.tasks {
				t.Errorf("two tasks share: %v", got)
			}
			if got := told(t, bob, "t1", "info") == pid; got != shares.users {
				t.Errorf("two users share: %v", got)
			}
			if got := told(t, ann, "t2", "count") == "3"; got != shares.tasks {
				t.Errorf("the server remembers one task's calls for another: %v", got)
			}
			other := told(t, ann, "t2", "info")
			if _, err := ann.ReleaseSession(t.Context(), &mcppoolv1.ReleaseSessionRequest{SessionId: "t1"}); err != nil {
				t.Fatal(err)
			}
			if told(t, ann, "t2", "info") != other {
				t.Error("a task's end closed what another one uses")
			}
			if got := told(t, ann, "t1", "info") == pid; got != shares.outlives {
				t.Errorf("the connection outlives its task: %v", got)
			}
		})
	}
}

// The limit of a server is refused with what to do, and counts for all users.
func TestServersConnections(t *testing.T) {
	s := start(t, remembering(t, map[string]any{"maxConnections": 1}))
	told(t, s.as("ann"), "t1", "info")
	o := invoke(t, s.as("bob"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"})
	if o.reason() != "LIMIT_REACHED" || o.ran() != errs.OutcomeNotExecuted {
		t.Errorf("bob: %v, %s", o.err, o.ran())
	}
	if _, err := s.as("ann").ReleaseSession(t.Context(), &mcppoolv1.ReleaseSessionRequest{SessionId: "t1"}); err != nil {
		t.Fatal(err)
	}
	told(t, s.as("bob"), "t1", "info") // the idle one made way
}

// Who shares what is an operator's to say, is kept, and counts at once.
func TestSharingIsAnOperatorsWord(t *testing.T) {
	data := t.TempDir()
	t.Run("written", func(t *testing.T) {
		s := start(t, Config{DataDir: data})
		op, ann := s.as("op"), s.as("ann")
		server := fake("fake", mcptest.Good)
		server.Isolation, server.MaxConnections, server.CacheTtl = mcppoolv1.Isolation_ISOLATION_SHARED, 7, durationpb.New(1e9)
		create(t, op, server)
		if told(t, ann, "", "info") != told(t, s.as("bob"), "", "info") {
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
	before := told(t, s.as("ann"), "", "info")
	if _, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "fake", Isolation: mcppoolv1.Isolation_ISOLATION_USER,
	}}); err != nil {
		t.Fatal(err)
	}
	if told(t, s.as("ann"), "", "info") == before {
		t.Error("a connection of all users goes on after it became each user's own")
	}
}

// What cannot be used in a file is said.
func TestSharingInFiles(t *testing.T) {
	for key, value := range map[string]any{"isolation": "team", "maxConnections": -1, "cacheTtl": "a while"} {
		_, err := New(context.Background(), remembering(t, map[string]any{key: value}), Deps{})
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
