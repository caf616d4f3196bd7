package mcppool

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/fakemcp"
)

func create(t *testing.T, c mcppoolv1.McpPoolServiceClient, s *mcppoolv1.McpServer) *mcppoolv1.McpServer {
	t.Helper()
	created, err := c.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: s})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func web(id, url string, headers map[string]string) *mcppoolv1.McpServer {
	return &mcppoolv1.McpServer{Id: id, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: url, Headers: headers}}}
}

func ids(t *testing.T, c mcppoolv1.McpPoolServiceClient, activeOnly bool) []string {
	t.Helper()
	var ids []string
	for token := ""; ; {
		resp, err := c.ListMcpServers(t.Context(), &mcppoolv1.ListMcpServersRequest{PageSize: 1, PageToken: token, ActiveOnly: activeOnly})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range resp.GetMcpServers() {
			ids = append(ids, s.GetId())
		}
		if token = resp.GetNextPageToken(); token == "" {
			return ids
		}
	}
}

func TestWhoMayRegisterWhat(t *testing.T) {
	s := start(t, Config{})
	root := t.TempDir()
	builtin := func(name, root string) *mcppoolv1.McpServer {
		return &mcppoolv1.McpServer{Id: "b", Transport: &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: name, Root: root}}}
	}
	with := func(m *mcppoolv1.McpServer, edit func(*mcppoolv1.McpServer)) *mcppoolv1.McpServer {
		edit(m)
		return m
	}
	tests := []struct {
		name, user string
		server     *mcppoolv1.McpServer
		want       codes.Code
	}{
		{"user, stdio", "ann", fake("x1", fakemcp.Good), codes.PermissionDenied},
		{"user, builtin", "ann", builtin("workspace", root), codes.PermissionDenied},
		{"user, trusted", "ann", with(web("x2", "https://a.example/mcp", nil), func(m *mcppoolv1.McpServer) { m.Trusted = true }), codes.PermissionDenied},
		{"user, policies", "ann", with(web("x3", "https://a.example/mcp", nil), func(m *mcppoolv1.McpServer) {
			m.ToolPolicies = map[string]*mcppoolv1.ToolPolicy{"*": {Effect: commonv1.Effect_EFFECT_READ}}
		}), codes.PermissionDenied},
		{"user, for another", "ann", with(web("x4", "https://a.example/mcp", nil), func(m *mcppoolv1.McpServer) { m.OwnerSub = "bob" }), codes.PermissionDenied},
		{"user, the pool's secrets", "ann", web("x5", "https://a.example/mcp", map[string]string{"A": "${env:HOME}"}), codes.PermissionDenied},
		{"service, stdio", "svc", fake("x6", fakemcp.Good), codes.PermissionDenied},
		{"user, http", "ann", web("ok1", "https://a.example/mcp", nil), codes.OK},
		{"operator, stdio", "op", fake("ok2", fakemcp.Good), codes.OK},
		{"operator, builtin", "op", with(builtin("workspace", root), func(m *mcppoolv1.McpServer) { m.Id = "ok3" }), codes.OK},
		{"operator, for another", "op", with(fake("ok4", fakemcp.Good), func(m *mcppoolv1.McpServer) { m.OwnerSub = "bob" }), codes.OK},
		{"no transport", "op", &mcppoolv1.McpServer{Id: "x7"}, codes.InvalidArgument},
		{"no id", "op", web("", "https://a.example/mcp", nil), codes.InvalidArgument},
		{"not a slug", "op", web("A b", "https://a.example/mcp", nil), codes.InvalidArgument},
		{"not http", "op", web("x8", "ftp://a.example/mcp", nil), codes.InvalidArgument},
		{"header of the protocol", "op", web("x9", "https://a.example/mcp", map[string]string{"mcp-session-id": "1"}), codes.InvalidArgument},
		{"nothing to keep", "op", web("x9", "https://a.example/mcp", map[string]string{"A": "***"}), codes.InvalidArgument},
		{"unknown builtin", "op", builtin("nope", root), codes.InvalidArgument},
		{"builtin without a folder", "op", builtin("workspace", filepath.Join(root, "none")), codes.InvalidArgument},
		{"id exists", "op", fake("ok2", fakemcp.Good), codes.AlreadyExists},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.as(tt.user).CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: tt.server})
			if status.Code(err) != tt.want {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
	if diff := cmp.Diff([]string{"ok1", "ok2", "ok3"}, ids(t, s.as("ann"), false)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"ok2", "ok3", "ok4"}, ids(t, s.as("bob"), false)); diff != "" {
		t.Error(diff)
	}
}

// Two users with servers of their own: neither sees anything of the other.
func TestUsersAreIsolated(t *testing.T) {
	s := start(t, Config{})
	for _, user := range []string{"ann", "bob"} {
		m := fake("mine", fakemcp.Good)
		m.OwnerSub = user
		create(t, s.as("op"), m)
	}
	shared := fake("shared", fakemcp.Good)
	create(t, s.as("op"), shared)
	m := fake("private", fakemcp.Good)
	m.OwnerSub = "ann"
	create(t, s.as("op"), m)

	_, err := s.as("bob").GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "private"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "private")
	_, err = s.as("bob").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "private"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "private")
	_, err = s.as("bob").ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: "private"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "private")
	_, err = s.as("bob").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "private"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "private")

	// Never one process for two users, be it the same registration.
	pids := make(map[string]string)
	for _, user := range []string{"ann", "bob"} {
		for _, id := range []string{"mine", "shared"} {
			o := invoke(t, s.as(user), &mcppoolv1.CallToolRequest{McpId: id, Name: "info", SessionId: "task"})
			if o.err != nil {
				t.Fatal(o.err)
			}
			if other, ok := pids[o.text()]; ok {
				t.Errorf("%s/%s and %s share a process", user, id, other)
			}
			pids[o.text()] = user + "/" + id
		}
	}
	// A session's name is its user's own.
	for user, want := range map[string]uint32{"ann": 2, "bob": 2, "op": 0} {
		resp, err := s.as(user).ReleaseSession(t.Context(), &mcppoolv1.ReleaseSessionRequest{SessionId: "task"})
		if err != nil || resp.GetReleased() != want {
			t.Errorf("%s released %d, %v", user, resp.GetReleased(), err)
		}
	}
}

func TestOwnServerHidesEverybodys(t *testing.T) {
	s := start(t, Config{})
	create(t, s.as("ann"), web("both", "https://ann.example/mcp", nil))
	create(t, s.as("op"), web("both", "https://all.example/mcp", nil))
	for user, want := range map[string]string{"ann": "https://ann.example/mcp", "bob": "https://all.example/mcp"} {
		got, err := s.as(user).GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "both"})
		if err != nil || got.GetHttp().GetUrl() != want {
			t.Errorf("%s sees %v, %v", user, got, err)
		}
		if list := ids(t, s.as(user), false); len(list) != 1 {
			t.Errorf("%s lists %v", user, list)
		}
	}
	_, err := s.as("bob").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: web("both", "https://bob.example/mcp", nil)})
	wantReason(t, err, "ALREADY_EXISTS", "both")
}

func TestSecretsAreNotShown(t *testing.T) {
	s := start(t, Config{})
	stdio := fake("stdio", fakemcp.Good)
	stdio.GetStdio().Env["TOKEN"] = "hunter2"
	create(t, s.as("op"), stdio)
	m := create(t, s.as("op"), web("web", "https://a.example/mcp", map[string]string{"Authorization": "Bearer hunter2"}))
	if got := m.GetHttp().GetHeaders()["Authorization"]; got != "***" {
		t.Errorf("the answer to create shows %q", got)
	}
	for user, want := range map[string]string{"ann": "***", "op": "hunter2"} {
		got, err := s.as(user).GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "stdio"})
		if err != nil || got.GetStdio().GetEnv()["TOKEN"] != want {
			t.Errorf("%s sees %v, %v", user, got.GetStdio().GetEnv(), err)
		}
		got, err = s.as(user).GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "web"})
		if err != nil || strings.Contains(got.String(), "hunter2") {
			t.Errorf("%s sees %v, %v", user, got, err)
		}
	}
}

func TestCreateIsIdempotent(t *testing.T) {
	s := start(t, Config{})
	req := &mcppoolv1.CreateMcpServerRequest{McpServer: web("web", "https://a.example/mcp", nil), RequestId: "r1"}
	first, err := s.as("ann").CreateMcpServer(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.as("ann").CreateMcpServer(t.Context(), req)
	if err != nil || !proto.Equal(first, again) {
		t.Errorf("repeated: %v, %v; want %v", again, err, first)
	}
	// Another user's request_id is another one.
	if _, err := s.as("bob").CreateMcpServer(t.Context(), req); err != nil {
		t.Error(err)
	}
	other := proto.CloneOf(req)
	other.McpServer.Description = "changed"
	_, err = s.as("ann").CreateMcpServer(t.Context(), other)
	wantReason(t, err, "REQUEST_ID_REUSED", "request_id")
	other.RequestId = "r2"
	_, err = s.as("ann").CreateMcpServer(t.Context(), other)
	wantReason(t, err, "ALREADY_EXISTS", "web")
}

func TestUpdate(t *testing.T) {
	s := start(t, Config{})
	m := web("web", "https://a.example/mcp", map[string]string{"A": "one", "B": "two"})
	m.Description = "old"
	first := create(t, s.as("ann"), m)
	update := func(m *mcppoolv1.McpServer, paths ...string) (*mcppoolv1.McpServer, error) {
		m.Id = "web"
		req := &mcppoolv1.UpdateMcpServerRequest{McpServer: m}
		if paths != nil {
			req.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
		}
		return s.as("ann").UpdateMcpServer(t.Context(), req)
	}

	got, err := update(&mcppoolv1.McpServer{Description: "new", DisplayName: "ignored"}, "description", "id", "etag", "state")
	if err != nil || got.GetDescription() != "new" || got.GetDisplayName() != "" || got.GetEtag() == first.GetEtag() {
		t.Errorf("masked: %v, %v", got, err)
	}
	got, err = update(&mcppoolv1.McpServer{DisplayName: "Web", CallTimeout: durationpb.New(5e9)})
	if err != nil || got.GetDescription() != "new" || got.GetDisplayName() != "Web" || got.GetCallTimeout().GetSeconds() != 5 {
		t.Errorf("without a mask: %v, %v", got, err)
	}
	if got, err = update(&mcppoolv1.McpServer{}, "call_timeout"); err != nil || got.GetCallTimeout() != nil {
		t.Errorf("cleared: %v, %v", got, err)
	}
	// `***` keeps a header's value; what is not sent goes.
	got, err = update(web("", "https://ignored.example", map[string]string{"A": "***", "C": "three"}), "http.headers")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "***", "C": "***"}, got.GetHttp().GetHeaders()); diff != "" || got.GetHttp().GetUrl() != "https://a.example/mcp" {
		t.Errorf("headers: %v, %s", got, diff)
	}
	stored, err := s.registry.Lookup("ann", "web")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "one", "C": "three"}, stored.HTTP.Headers); diff != "" {
		t.Error(diff)
	}

	_, err = update(&mcppoolv1.McpServer{Description: "late", Etag: first.GetEtag()}, "description")
	wantReason(t, err, "CONFLICT", "read it again")
	if _, err = update(&mcppoolv1.McpServer{Description: "in time", Etag: got.GetEtag()}, "description"); err != nil {
		t.Error(err)
	}
	_, err = update(&mcppoolv1.McpServer{}, "nonsense")
	wantReason(t, err, "INVALID_REQUEST", "nonsense")
	_, err = update(&mcppoolv1.McpServer{Trusted: true}, "trusted")
	wantReason(t, err, "PERMISSION_DENIED", "trusted")
	_, err = update(fake("", fakemcp.Good), "stdio")
	wantReason(t, err, "PERMISSION_DENIED", "operator")
	_, err = update(&mcppoolv1.McpServer{OwnerSub: "bob"})
	wantReason(t, err, "INVALID_REQUEST", "owner_sub")
	_, err = update(web("", "gopher://x", nil), "http")
	wantReason(t, err, "INVALID_REQUEST", "url")
	got, err = update(web("", "https://b.example/mcp", nil), "*")
	if err != nil || got.GetDisplayName() != "" || got.GetHttp().GetUrl() != "https://b.example/mcp" {
		t.Errorf("all of it: %v, %v", got, err)
	}
	if _, err := s.as("ann").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "web", Etag: "wrong"}); status.Code(err) != codes.Aborted {
		t.Errorf("delete with a wrong etag: %v", err)
	}
	if _, err := s.as("ann").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "web"}); err != nil {
		t.Error(err)
	}
}

func TestPlainUsersDoNotChangeWhatOperatorsWrote(t *testing.T) {
	s := start(t, Config{})
	create(t, s.as("op"), web("shared", "https://a.example/mcp", nil))
	m := web("anns", "https://a.example/mcp", map[string]string{"A": "${env:TOKEN}"})
	m.OwnerSub = "ann"
	create(t, s.as("op"), m)
	ann := s.as("ann")
	_, err := ann.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "shared", Description: "x"}})
	wantReason(t, err, "PERMISSION_DENIED", "everybody's")
	_, err = ann.DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "shared"})
	wantReason(t, err, "PERMISSION_DENIED", "everybody's")
	// Moving the operator's secret to another address would give it away.
	_, err = ann.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{
		McpServer: web("anns", "https://evil.example/mcp", map[string]string{"A": "***"}),
	})
	wantReason(t, err, "PERMISSION_DENIED", "an operator wrote")
	if _, err = ann.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "anns", Disabled: true}}); err != nil {
		t.Error(err)
	}
	// An operator reaches another's server by naming the owner.
	got, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "anns", OwnerSub: "ann", Trusted: true,
	}})
	if err != nil || !got.GetTrusted() {
		t.Errorf("operator: %v, %v", got, err)
	}
}

func TestActivation(t *testing.T) {
	s := start(t, Config{})
	m := fake("tools", fakemcp.Good)
	m.AutoActivate = false
	create(t, s.as("op"), m)
	ann := s.as("ann")
	_, err := ann.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "tools"})
	wantReason(t, err, "MCP_SERVER_NOT_ACTIVE", "pawl mcp activate tools")
	o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "tools", Name: "info"})
	if o.reason() != "MCP_SERVER_NOT_ACTIVE" || o.ran() != "NOT_EXECUTED" {
		t.Errorf("call: %+v", o)
	}
	got, err := ann.ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: "tools"})
	if err != nil || !got.GetActive() {
		t.Errorf("activate: %v, %v", got, err)
	}
	if list := ids(t, s.as("bob"), true); len(list) != 0 {
		t.Errorf("one user's activation counts for another: %v", list)
	}
	first := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "tools", Name: "info"})
	if first.err != nil {
		t.Fatal(first.err)
	}
	got, err = ann.GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "tools"})
	if err != nil || got.GetState() != mcppoolv1.ConnectionState_CONNECTION_STATE_READY || !strings.HasPrefix(got.GetServerInfo(), "fake 1.0") {
		t.Errorf("connected: %v, %v", got, err)
	}
	got, err = ann.DeactivateMcpServer(t.Context(), &mcppoolv1.DeactivateMcpServerRequest{Id: "tools"})
	if err != nil || got.GetActive() || got.GetState() != mcppoolv1.ConnectionState_CONNECTION_STATE_IDLE {
		t.Errorf("deactivate: %v, %v", got, err)
	}
	if pid := mustAtoi(t, first.text()); !fakemcp.Gone(pid, waitLimit) {
		t.Error("the connection outlived the deactivation")
	}
	if _, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "tools", Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	_, err = s.as("op").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "tools"})
	wantReason(t, err, "MCP_SERVER_NOT_ACTIVE", "is disabled")
}

func TestFailedConnectShows(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"bad": fakemcp.Exit})}})
	_, err := s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "bad"})
	wantReason(t, err, "MCP_SERVER_UNAVAILABLE", "exit status 3")
	for user, want := range map[string]mcppoolv1.ConnectionState{
		"ann": mcppoolv1.ConnectionState_CONNECTION_STATE_FAILED, "bob": mcppoolv1.ConnectionState_CONNECTION_STATE_IDLE,
	} {
		got, err := s.as(user).GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "bad"})
		if err != nil || got.GetState() != want || (got.GetLastError() != "") != (user == "ann") {
			t.Errorf("%s sees %v, %v", user, got, err)
		}
	}
}

// C2: a call in flight finishes on the old configuration, the next one uses the new.
func TestC2UpdateDuringACall(t *testing.T) {
	s := start(t, Config{})
	create(t, s.as("op"), fake("fake", fakemcp.Good))
	op := s.as("op")
	old := invoke(t, op, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}).text()
	ended := running(t.Context(), t, op, "wait", "c1")
	changed := fake("fake", fakemcp.Good)
	changed.GetStdio().Env["CHANGED"] = "yes"
	if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: changed}); err != nil {
		t.Fatal(err)
	}
	if o := invoke(t, op, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "env"}); !strings.Contains(o.text(), "CHANGED=yes") {
		t.Errorf("the next call uses the old configuration: %v", o.err)
	}
	if err := cancelCall(t, op, "c1"); err != nil {
		t.Error(err)
	}
	if o := <-ended; o.text() != "stopped in time" {
		t.Errorf("the call in flight was cut off: %+v", o)
	}
	if !fakemcp.Gone(mustAtoi(t, old), waitLimit) {
		t.Error("the old process outlived its last call")
	}
	// A change that does not concern the connection leaves it alone.
	before := invoke(t, op, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}).text()
	if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "fake", Description: "x"}}); err != nil {
		t.Fatal(err)
	}
	if after := invoke(t, op, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}).text(); after != before {
		t.Error("a new description made a new connection")
	}
	ended = running(t.Context(), t, op, "wait", "c2")
	if _, err := op.DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "fake"}); err != nil {
		t.Fatal(err)
	}
	if err := cancelCall(t, op, "c2"); err != nil {
		t.Error(err)
	}
	if o := <-ended; o.text() != "stopped in time" {
		t.Errorf("delete cut off the call in flight: %+v", o)
	}
	if !fakemcp.Gone(mustAtoi(t, before), waitLimit) {
		t.Error("the process of a deleted server is still there")
	}
}

func TestServersOfFilesAreReadOnly(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"My Server": fakemcp.Good})}})
	got, err := s.as("ann").GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "my-server"})
	if err != nil || !got.GetFromConfig() || got.GetCreateTime() != nil || !got.GetActive() || got.GetDisplayName() != "My Server" {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "my-server", Disabled: true}})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "edit that file") {
		t.Errorf("update: %v", err)
	}
	_, err = s.as("op").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "my-server"})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("delete: %v", err)
	}
	if _, err := s.as("ann").DeactivateMcpServer(t.Context(), &mcppoolv1.DeactivateMcpServerRequest{Id: "my-server"}); err != nil {
		t.Error(err)
	}
}

func TestHTTPServersOfPlainUsersStayOutside(t *testing.T) {
	srv := httptest.NewServer(mcpserver.NewStreamableHTTPServer(mcpserver.NewMCPServer("web", "1")))
	t.Cleanup(srv.Close)
	s := start(t, Config{})
	create(t, s.as("ann"), web("anns", srv.URL, nil))
	create(t, s.as("op"), web("ops", srv.URL, nil))
	_, err := s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "anns"})
	wantReason(t, err, "MCP_SERVER_UNAVAILABLE", "only an operator may register")
	if _, err := s.as("op").ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: "ops"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.as("op").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "ops"}); err != nil {
		t.Error(err)
	}
}

func TestWorkspace(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "hello.txt"), []byte("ratchet"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Workspace: root})
	tools := listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "workspace"}).GetTools()
	if tool := toolNamed(t, tools, "read_file"); tool.GetEffect() != commonv1.Effect_EFFECT_READ || tool.GetRiskFloor() != commonv1.RiskLevel_RISK_LEVEL_LOW {
		t.Errorf("read_file: %v", tool)
	}
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "workspace", Name: "read_file", InputJson: `{"path":"hello.txt"}`})
	if o.err != nil || !strings.Contains(o.text(), "ratchet") {
		t.Errorf("read_file: %q, %v", o.text(), o.err)
	}
}

func TestRegistrationsOutliveTheProcess(t *testing.T) {
	cfg := Config{DataDir: t.TempDir()}
	t.Run("before", func(t *testing.T) {
		s := start(t, cfg)
		m := fake("kept", fakemcp.Good)
		m.ToolPolicies = map[string]*mcppoolv1.ToolPolicy{"echo": {Effect: commonv1.Effect_EFFECT_READ}}
		create(t, s.as("op"), m)
		create(t, s.as("op"), fake("gone", fakemcp.Good))
		if _, err := s.as("op").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "gone"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.as("bob").DeactivateMcpServer(t.Context(), &mcppoolv1.DeactivateMcpServerRequest{Id: "kept"}); err != nil {
			t.Fatal(err)
		}
		_, err := New(t.Context(), cfg, Deps{})
		if err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("a second pool on the same folder: %v", err)
		}
	})
	s := start(t, cfg)
	if diff := cmp.Diff([]string{"kept"}, ids(t, s.as("ann"), true)); diff != "" {
		t.Error(diff)
	}
	if list := ids(t, s.as("bob"), true); len(list) != 0 {
		t.Errorf("the deactivation was forgotten: %v", list)
	}
	tool := toolNamed(t, listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "kept"}).GetTools(), "echo")
	if tool.GetEffect() != commonv1.Effect_EFFECT_READ {
		t.Errorf("the policy was forgotten: %v", tool)
	}
}

func TestNoChildIsLeftAfterClose(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"good": fakemcp.Good, "stubborn": fakemcp.Stubborn})}})
	var pids []int
	for _, id := range []string{"good", "stubborn"} {
		for _, user := range []string{"ann", "bob"} {
			pids = append(pids, mustAtoi(t, invoke(t, s.as(user), &mcppoolv1.CallToolRequest{McpId: id, Name: "info", SessionId: "s"}).text()))
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if !fakemcp.Gone(pid, 0) {
			t.Errorf("process %d is still there", pid)
		}
	}
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "good", Name: "info"})
	if o.reason() != "SHUTTING_DOWN" {
		t.Errorf("call after Close: %+v", o)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]Config{
		"file:1:2":        {MCPConfigs: []string{file}},
		"no such file":    {MCPConfigs: []string{file + "x"}},
		"is not a folder": {Workspace: file},
		"negative":        {MaxConnections: -1},
		"data folder":     {DataDir: filepath.Join(file, "x")},
		"rename":          {Workspace: t.TempDir(), MCPConfigs: []string{fakeConfig(t, map[string]string{"workspace": fakemcp.Good})}},
	} {
		if _, err := New(t.Context(), cfg, Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

func TestLogsHoldNoSecrets(t *testing.T) {
	var buf bytes.Buffer
	stdio := fakemcp.Stdio(fakemcp.Exit)
	stdio.Env["SECRET_TOKEN"] = "hunter2-hunter2"
	path := writeConfig(t, map[string]any{"mcpServers": map[string]any{"bad": map[string]any{"command": stdio.Command, "env": stdio.Env}}})
	service, err := New(t.Context(), Config{MCPConfigs: []string{path}}, Deps{Log: slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	server, err := service.registry.Lookup("ann", "bad")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.connector.Connect(t.Context(), server); err == nil {
		t.Error("connected")
	}
	if err := service.Close(); err != nil {
		t.Error(err)
	}
	if strings.Contains(buf.String(), "hunter2") {
		t.Errorf("the log shows a secret:\n%s", buf.String())
	}
}
