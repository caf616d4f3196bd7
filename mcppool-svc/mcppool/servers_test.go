package mcppool

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
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
	_, err = update(fake("", mcptest.Good), "stdio")
	wantReason(t, err, "PERMISSION_DENIED", "operator")
	_, err = update(&mcppoolv1.McpServer{OwnerSub: "bob"})
	wantReason(t, err, "INVALID_REQUEST", "owner_sub")
	_, err = update(web("", "gopher://x", nil), "http")
	wantReason(t, err, "INVALID_REQUEST", "url")
	got, err = update(web("", "https://b.example/mcp", nil), "*")
	if err != nil || got.GetDisplayName() != "" || got.GetHttp().GetUrl() != "https://b.example/mcp" {
		t.Errorf("mask *: %v, %v", got, err)
	}
	if _, err := s.as("ann").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "web", Etag: "wrong"}); status.Code(err) != codes.Aborted {
		t.Errorf("delete with a wrong etag: %v", err)
	}
	if _, err := s.as("ann").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "web"}); err != nil {
		t.Error(err)
	}
}

func TestActivation(t *testing.T) {
	s := start(t, Config{})
	m := fake("tools", mcptest.Good)
	m.AutoActivate = false
	create(t, s.as("op"), m)
	ann := s.as("ann")
	_, err := ann.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "tools"})
	wantReason(t, err, "MCP_SERVER_NOT_ACTIVE", "pawl mcp activate tools")
	o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "tools", Name: "info"})
	if o.reason() != "MCP_SERVER_NOT_ACTIVE" || o.outcome() != "NOT_EXECUTED" {
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
	if pid := mustAtoi(t, first.text()); !mcptest.Gone(pid, waitLimit) {
		t.Error("the connection outlived the deactivation")
	}
	if _, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "tools", Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	_, err = s.as("op").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "tools"})
	wantReason(t, err, "MCP_SERVER_NOT_ACTIVE", "is disabled")
}

func TestServersOfFilesAreReadOnly(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"My Server": mcptest.Good})}})
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

// The refusal of an open circuit breaker gives the reason, and proves that nothing ran.
func TestCircuitOpen(t *testing.T) {
	s := start(t, Config{BreakAfter: 1, BreakFor: time.Hour, MCPConfigs: []string{fakeConfig(t, map[string]string{"bad": mcptest.Exit})}})
	ann := s.as("ann")
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "bad", Name: "x"}).
		want(t, codes.Unavailable, "MCP_SERVER_UNAVAILABLE", errs.OutcomeNotExecuted)
	o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "bad", Name: "x"})
	o.want(t, codes.Unavailable, "CIRCUIT_OPEN", errs.OutcomeNotExecuted)
	wantReason(t, o.err, "CIRCUIT_OPEN", "the database is missing")
	if errs.From(o.err).RetryAfter < 59*time.Minute {
		t.Errorf("retry after %v", errs.From(o.err).RetryAfter)
	}
	_, err := ann.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "bad"})
	wantReason(t, err, "CIRCUIT_OPEN", "does not connect")
}

// A TestMcpServer that succeeds closes the circuit breaker: the next call is not refused.
func TestDiagnosisClosesTheCircuit(t *testing.T) {
	var works atomic.Bool
	mcp := mcptest.Web(mcptest.Good)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !works.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mcp.ServeHTTP(w, r)
	}))
	t.Cleanup(up.Close)
	s := start(t, Config{BreakAfter: 1, BreakFor: time.Hour})
	server := web("web", up.URL+"/mcp", nil)
	server.AutoActivate = true
	create(t, s.as("op"), server)
	list := func() error {
		_, err := s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "web"})
		return err
	}
	wantReason(t, list(), "MCP_SERVER_UNAVAILABLE", "502")
	test := func() bool {
		resp, err := s.as("ann").TestMcpServer(t.Context(), &mcppoolv1.TestMcpServerRequest{Id: "web"})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetOk()
	}
	if test() {
		t.Error("TestMcpServer succeeds while the server fails")
	}
	wantReason(t, list(), "CIRCUIT_OPEN", "does not connect")
	works.Store(true)
	wantReason(t, list(), "CIRCUIT_OPEN", "does not connect")
	if !test() {
		t.Error("TestMcpServer fails though the server works")
	}
	if err := list(); err != nil {
		t.Error(err)
	}
}
