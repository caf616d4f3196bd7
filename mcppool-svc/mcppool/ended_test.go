package mcppool

import (
	"testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// A23: a call's ended_session_ids release these sessions of its user, even if the call fails; those of other users stay.
func TestA23EndedSessionsComeWithCalls(t *testing.T) {
	s := start(t, fakeWith(t, nil))
	ann, bob := s.as("ann"), s.as("bob")
	textIn(t, ann, "t1", "info")
	textIn(t, bob, "t1", "info")
	textIn(t, ann, "t2", "info")
	stream, err := ann.CallTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []struct {
		ended string
		req   *mcppoolv1.CallToolRequest
		fails string
	}{
		{"t1", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info", SessionId: "t3"}, ""},
		{"t2", &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info", SessionId: "t3", PoolId: "another"}, "OTHER_POOL"},
	} {
		if err := stream.Send(&mcppoolv1.CallToolsRequest{Call: call.req, EndedSessionIds: []string{call.ended}}); err != nil {
			t.Fatal(err)
		}
		if o := readToEnd(stream); (o.err != nil) != (call.fails != "") || o.err != nil && o.reason() != call.fails {
			t.Errorf("the call beside the end of %s: %+v", call.ended, o)
		}
	}
	released := func(c mcppoolv1.McpPoolServiceClient, session string, want uint32) {
		t.Helper()
		res, err := c.ReleaseSession(t.Context(), &mcppoolv1.ReleaseSessionRequest{SessionId: session})
		if err != nil || res.GetReleased() != want {
			t.Errorf("%s still held %d connections, %v; want %d", session, res.GetReleased(), err, want)
		}
	}
	released(ann, "t1", 0)
	released(ann, "t2", 0)
	released(ann, "t3", 1)
	released(bob, "t1", 1)
}

// A session may be released late if it keeps nothing from others: neither a connection of its own, nor room near a limit.
func TestLateRelease(t *testing.T) {
	for name, tc := range map[string]struct {
		server map[string]any
		limits Config
		late   bool
	}{
		"user":                    {server: map[string]any{"isolation": "user"}, late: true},
		"shared":                  {server: map[string]any{"isolation": "shared"}, late: true},
		"task":                    {server: map[string]any{"isolation": "task"}},
		"near the server's limit": {server: map[string]any{"maxConnections": 2}},
		"far from the limits":     {server: map[string]any{"maxConnections": 3}, limits: Config{MaxConnections: 3, MaxConnectionsPerUser: 3}, late: true},
		"near the user's limit":   {limits: Config{MaxConnectionsPerUser: 2}},
		"near the limit of all":   {limits: Config{MaxConnections: 2}},
		"shared, near the limit":  {server: map[string]any{"isolation": "shared", "maxConnections": 2}, limits: Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fakeWith(t, tc.server)
			cfg.MaxConnections, cfg.MaxConnectionsPerUser = tc.limits.MaxConnections, tc.limits.MaxConnectionsPerUser
			ann := start(t, cfg).as("ann")
			textIn(t, ann, "t1", "info")
			for session, late := range map[string]bool{"t1": tc.late, "": false} {
				res, err := ann.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "fake", SessionId: session})
				if err != nil || res.GetLateRelease() != late {
					t.Errorf("session %q: late_release is %v, want %v; %v", session, res.GetLateRelease(), late, err)
				}
			}
		})
	}
}

// The connections of other users do not count towards a user's limit.
func TestLateReleaseCountsOwnConnections(t *testing.T) {
	cfg := fakeWith(t, nil)
	cfg.MaxConnectionsPerUser = 3
	s := start(t, cfg)
	for _, user := range []string{"ann", "bob", "op"} {
		textIn(t, s.as(user), "t1", "info")
	}
	res, err := s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "fake", SessionId: "t1"})
	if err != nil || !res.GetLateRelease() {
		t.Errorf("one connection of three: %v, %v", res.GetLateRelease(), err)
	}
}
