package mcppool

import (
	"fmt"
	"net"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// checksOf is a report in short: name=STATUS.
func checksOf(resp *mcppoolv1.TestMcpServerResponse) []string {
	var all []string
	for _, c := range resp.GetChecks() {
		all = append(all, c.GetName()+"="+strings.TrimPrefix(c.GetStatus().String(), "STATUS_"))
	}
	return all
}

// closedPort is an address where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// TestMcpServer says which check of a server fails and what to do, and skips the later ones.
func TestDiagnosis(t *testing.T) {
	missing := fake("missing", mcptest.Good)
	missing.GetStdio().Command = "no-such-program"
	secret := fake("secret", mcptest.Good)
	secret.GetStdio().Env["KEY"] = "${env:PAWL_TEST_NOT_SET}"
	trusted := fake("trusted", mcptest.Good)
	trusted.Trusted = true
	empty := fake("empty", mcptest.Empty)
	disabled := fake("disabled", mcptest.Good)
	disabled.Disabled = true
	tests := []struct {
		server  *mcppoolv1.McpServer
		checks  string
		message string // of the first check that failed or warns
		advice  string
	}{
		{trusted, "configuration=OK secrets=OK command=OK connect=OK tools=OK definitions=WARNING approvals=OK", "lookahead", "another version"},
		{empty, "configuration=OK secrets=OK command=OK connect=OK tools=WARNING definitions=OK approvals=OK", "has no tools", "a key"},
		{fake("good", mcptest.Good), "configuration=OK secrets=OK command=OK connect=OK tools=OK definitions=WARNING approvals=OK", "counts as one that writes", "--trusted"},
		{disabled, "configuration=FAILED secrets=SKIPPED command=SKIPPED connect=SKIPPED tools=SKIPPED definitions=SKIPPED approvals=SKIPPED", "disabled", "enable it"},
		{missing, "configuration=OK secrets=OK command=FAILED connect=SKIPPED tools=SKIPPED definitions=SKIPPED approvals=SKIPPED", "not found in PATH; install it", ""},
		{secret, "configuration=OK secrets=FAILED command=SKIPPED connect=SKIPPED tools=SKIPPED definitions=SKIPPED approvals=SKIPPED", "PAWL_TEST_NOT_SET", ""},
		{fake("exit", mcptest.Exit), "configuration=OK secrets=OK command=OK connect=FAILED tools=SKIPPED definitions=SKIPPED approvals=SKIPPED", "the database is missing", ""},
		{fake("rubbish", mcptest.Rubbish), "configuration=OK secrets=OK command=OK connect=FAILED tools=SKIPPED definitions=SKIPPED approvals=SKIPPED", "Welcome to this program", "only MCP messages"},
		{fake("twins", mcptest.Twins), "configuration=OK secrets=OK command=OK connect=OK tools=FAILED definitions=SKIPPED approvals=SKIPPED", "two tools have the name", "MCP server"},
		{web("closed", "http://"+closedPort(t)+"/mcp", nil), "configuration=OK secrets=OK address=FAILED connect=SKIPPED tools=SKIPPED definitions=SKIPPED approvals=SKIPPED", "connection refused", "nothing listens at that address"},
	}
	s := start(t, Config{})
	for _, tt := range tests {
		id := tt.server.GetId()
		t.Run(id, func(t *testing.T) {
			tt.server.AutoActivate = true
			create(t, s.as("op"), tt.server)
			resp, err := s.as("ann").TestMcpServer(t.Context(), &mcppoolv1.TestMcpServerRequest{Id: id})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(tt.checks), checksOf(resp)); diff != "" {
				t.Error(diff, resp)
			}
			if failed := strings.Contains(tt.checks, "FAILED"); resp.GetOk() == failed {
				t.Errorf("ok = %v", resp.GetOk())
			}
			i := slices.IndexFunc(resp.GetChecks(), func(c *mcppoolv1.ServerCheck) bool {
				return c.GetStatus() == mcppoolv1.ServerCheck_STATUS_FAILED || c.GetStatus() == mcppoolv1.ServerCheck_STATUS_WARNING
			})
			if i < 0 && tt.message != "" {
				t.Fatal("no check failed or warns")
			}
			if i >= 0 {
				c := resp.GetChecks()[i]
				if !strings.Contains(c.GetMessage(), tt.message) || !strings.Contains(c.GetAdvice(), tt.advice) {
					t.Errorf("%s: %q, advice %q", c.GetName(), c.GetMessage(), c.GetAdvice())
				}
			}
		})
	}
	for state, n := range s.pool.Load().States {
		if n != 0 {
			t.Errorf("%d connections of the pool are %s", n, state)
		}
	}
}

// TestMcpServer refuses a plain user's server at a private address as a call does. Other users' servers are not found.
func TestDiagnosisForPlainUsers(t *testing.T) {
	s := start(t, Config{})
	create(t, s.as("ann"), web("inside", "http://"+strings.Replace(closedPort(t), "127.0.0.1", "localhost", 1)+"/mcp", nil))
	resp, err := s.as("ann").TestMcpServer(t.Context(), &mcppoolv1.TestMcpServerRequest{Id: "inside"})
	if err != nil || resp.GetChecks()[2].GetStatus() != mcppoolv1.ServerCheck_STATUS_FAILED ||
		!strings.Contains(resp.GetChecks()[2].GetAdvice(), "operator") {
		t.Errorf("%v, %v", resp, err)
	}
	_, err = s.as("bob").TestMcpServer(t.Context(), &mcppoolv1.TestMcpServerRequest{Id: "inside"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "inside")
	_, err = s.as("bob").GetMcpServerLog(t.Context(), &mcppoolv1.GetMcpServerLogRequest{Id: "inside"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "inside")
}

// A child's stderr can be read while it runs and after it failed, with secrets masked, and only by its user.
func TestServerLog(t *testing.T) {
	s := start(t, Config{})
	talks := fake("talks", mcptest.Talkative)
	talks.GetStdio().Env["SECRET_TOKEN"] = "hunter2hunter2"
	create(t, s.as("op"), talks)
	log := func(user, id string) *mcppoolv1.GetMcpServerLogResponse {
		t.Helper()
		resp, err := s.as(user).GetMcpServerLog(t.Context(), &mcppoolv1.GetMcpServerLogRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	if l := log("ann", "talks"); l.GetConnected() || l.GetConnectTime() != nil || l.GetStderr() != "" {
		t.Errorf("before: %v", l)
	}
	if o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "talks", Name: "count", InputJson: `{}`}); o.err != nil {
		t.Fatal(o.err)
	}
	// The pipe may still hold the last lines.
	l := log("ann", "talks")
	for late := time.Now().Add(waitLimit); !strings.HasSuffix(l.GetStderr(), "line 1999, token ***\n") && time.Now().Before(late); l = log("ann", "talks") {
		runtime.Gosched()
	}
	if !l.GetConnected() || l.GetConnectTime() == nil || !strings.HasSuffix(l.GetStderr(), "line 1999, token ***\n") || !l.GetTruncated() {
		t.Errorf("running: %v, %v, %q", l.GetConnected(), l.GetTruncated(), l.GetStderr()[max(0, len(l.GetStderr())-100):])
	}
	if n := len(l.GetStderr()); n > 64<<10 {
		t.Errorf("%d bytes are kept", n)
	}
	if l := log("bob", "talks"); l.GetStderr() != "" {
		t.Errorf("another user sees %v", l)
	}

	exit := fake("exit", mcptest.Exit)
	exit.GetStdio().Env["SECRET_TOKEN"] = "hunter2hunter2"
	create(t, s.as("op"), exit)
	if _, err := s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "exit"}); err == nil {
		t.Fatal("a server that exits listed its tools")
	}
	if l := log("ann", "exit"); l.GetConnected() || l.GetLastError() == "" || l.GetStderr() != fmt.Sprintln("fake: the database is missing, token ***") {
		t.Errorf("failed: %v", l)
	}
}

// The log says whether and since when a server is connected even if it shows no stderr: over HTTP, and on a connection that users
// share, where stderr may be about others.
func TestServerLogWithoutStderr(t *testing.T) {
	up := httptest.NewServer(mcptest.Web(mcptest.Good))
	t.Cleanup(up.Close)
	s := start(t, Config{})
	for _, isolation := range []mcppoolv1.Isolation{
		mcppoolv1.Isolation_ISOLATION_USER, mcppoolv1.Isolation_ISOLATION_TASK, mcppoolv1.Isolation_ISOLATION_SHARED,
	} {
		servers := []*mcppoolv1.McpServer{web("web", up.URL+"/mcp", nil)}
		if isolation == mcppoolv1.Isolation_ISOLATION_SHARED {
			servers = append(servers, fake("talks", mcptest.Talkative), fake("exit", mcptest.Exit))
		}
		for _, server := range servers {
			id := fmt.Sprintf("%s-%d", server.GetId(), isolation)
			works := server.GetId() != "exit"
			server.Id, server.AutoActivate, server.Isolation = id, true, isolation
			create(t, s.as("op"), server)
			before, err := s.as("ann").GetMcpServerLog(t.Context(), &mcppoolv1.GetMcpServerLogRequest{Id: id})
			if err != nil || before.GetConnected() || before.GetConnectTime() != nil {
				t.Errorf("%s before: %v, %v", id, before, err)
			}
			if _, err := s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: id}); (err == nil) != works {
				t.Fatal(err)
			}
			log, err := s.as("ann").GetMcpServerLog(t.Context(), &mcppoolv1.GetMcpServerLogRequest{Id: id})
			if err != nil || log.GetConnected() != works || log.GetConnectTime() == nil || log.GetStderr() != "" || log.GetTruncated() || (log.GetLastError() == "") != works {
				t.Errorf("%s: %v, %v", id, log, err)
			}
		}
	}
}
