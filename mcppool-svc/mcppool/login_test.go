package mcppool

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
)

// webMCP is an MCP server over HTTP with the tool echo.
func webMCP() http.Handler {
	s := server.NewMCPServer("web", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	return server.NewStreamableHTTPServer(s)
}

// guarded is a pool with the server `web`, which wants logins.
type guarded struct {
	*suite
	auth *mcptest.Authority
	web  *mcptest.Resource
	now  *clock
}

func startGuarded(t *testing.T, sw mcptest.Switches, g mcptest.Guard, o *mcppoolv1.OAuth) *guarded {
	t.Helper()
	return startGuardedServer(t, webMCP(), sw, g, o)
}

// startGuardedServer is startGuarded with the MCP server mcp.
func startGuardedServer(t *testing.T, mcp http.Handler, sw mcptest.Switches, g mcptest.Guard, o *mcppoolv1.OAuth) *guarded {
	t.Helper()
	now := &clock{}
	p := &guarded{auth: mcptest.NewAuthority(t, sw), now: now}
	p.web = mcptest.Protect(t, p.auth, mcp, g)
	p.suite = startWith(t, Config{AllowAddresses: []string{"127.0.0.0/8"}}, Deps{Now: now.now})
	_, err := p.as("op").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "web", AutoActivate: true,
		Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: p.web.URL, Oauth: o}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const loopback = "http://127.0.0.1:4321/callback"

// login begins, consents and finishes as a user.
func (p *guarded) login(t *testing.T, user string) *mcppoolv1.FinishMcpLoginResponse {
	t.Helper()
	began, err := p.as(user).StartMcpLogin(t.Context(), &mcppoolv1.StartMcpLoginRequest{McpId: "web", RedirectUri: loopback})
	if err != nil {
		t.Fatal(err)
	}
	q := p.auth.Browse(began.GetAuthorizationUrl())
	done, err := p.as(user).FinishMcpLogin(t.Context(), &mcppoolv1.FinishMcpLoginRequest{State: q.Get("state"), Code: q.Get("code"), Iss: q.Get("iss")})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func (p *guarded) echo(t *testing.T, user string) reply {
	t.Helper()
	return invoke(t, p.as(user), &mcppoolv1.CallToolRequest{McpId: "web", Name: "echo", InputJson: `{"text":"hi"}`})
}

func (p *guarded) state(t *testing.T, user string) *mcppoolv1.McpServer {
	t.Helper()
	s, err := p.as(user).GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "web"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The usual course: the server requires a login, the user logs in, calls succeed, the token is renewed without the user.
func TestLoginCallRefresh(t *testing.T) {
	p := startGuarded(t, mcptest.Switches{Token: mcptest.Fields{"expires_in": 600}}, mcptest.Guard{Ask: "mcp:basic"}, nil)
	_, err := p.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "web"})
	wantReason(t, err, "LOGIN_REQUIRED", "run `pawl mcp login web`")
	if o := p.echo(t, "ann"); o.reason() != "LOGIN_REQUIRED" || o.outcome() != errs.OutcomeNotExecuted {
		t.Errorf("a call without a login: %s, %s", o.reason(), o.outcome())
	}
	if s := p.state(t, "ann"); s.GetLogin() != mcppoolv1.LoginState_LOGIN_STATE_REQUIRED || !strings.Contains(s.GetLastError(), "pawl mcp login web") {
		t.Errorf("state %v, last error %q", s.GetLogin(), s.GetLastError())
	}

	done := p.login(t, "ann")
	if done.GetMcpId() != "web" || strings.Join(done.GetScopes(), " ") != "mcp:basic" || done.GetExpireTime() == nil {
		t.Errorf("finished: %v", done)
	}
	if s := p.state(t, "ann"); s.GetLogin() != mcppoolv1.LoginState_LOGIN_STATE_ACTIVE {
		t.Errorf("state %v", s.GetLogin())
	}
	if o := p.echo(t, "ann"); o.text() != "hi" {
		t.Fatalf("call after the login: %v", o.err)
	}

	// It is renewed before it ends, over the same connection.
	p.now.move(9*time.Minute + 30*time.Second)
	if o := p.echo(t, "ann"); o.text() != "hi" {
		t.Fatalf("call with a renewed token: %v", o.err)
	}
	if n := p.auth.Grants("refresh_token"); n != 1 {
		t.Errorf("%d renewals", n)
	}
	// And when the server no longer accepts it, in the middle of a session.
	p.auth.Revoke()
	if o := p.echo(t, "ann"); o.text() != "hi" {
		t.Fatalf("call after a 401: %v", o.err)
	}
	if n := p.auth.Grants("refresh_token"); n != 2 {
		t.Errorf("%d renewals", n)
	}

	// Another user has no part in it.
	if o := p.echo(t, "bob"); o.reason() != "LOGIN_REQUIRED" {
		t.Errorf("bob: %v", o.err)
	}
	if s := p.state(t, "bob"); s.GetLogin() != mcppoolv1.LoginState_LOGIN_STATE_REQUIRED {
		t.Errorf("bob's state %v", s.GetLogin())
	}
	if _, err := p.as("ann").DeleteMcpLogin(t.Context(), &mcppoolv1.DeleteMcpLoginRequest{McpId: "web"}); err != nil {
		t.Fatal(err)
	}
	if o := p.echo(t, "ann"); o.reason() != "LOGIN_REQUIRED" {
		t.Errorf("after the logout: %v", o.err)
	}
	p.auth.With(func(a *mcptest.Authority) {
		if len(a.Revoked) != 1 || !strings.HasPrefix(a.Revoked[0], "refresh-") {
			t.Errorf("revoked %q", a.Revoked)
		}
	})
}

// A server without handshake may answer initialize, which it does not know, without a login. Its answers to methods that it
// knows decide whether it requires one.
func TestLoginOfServerWithoutHandshake(t *testing.T) {
	auth := mcptest.NewAuthority(t, mcptest.Switches{})
	web := mcptest.Protect(t, auth, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var rpc struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&rpc)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"there is no such method"}}`, rpc.ID)
	}), mcptest.Guard{OpenMethod: "initialize"})
	s := start(t, Config{})
	_, err := s.as("op").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "web", AutoActivate: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: web.URL}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "web"})
	wantReason(t, err, "LOGIN_REQUIRED", "run `pawl mcp login web`")
}
