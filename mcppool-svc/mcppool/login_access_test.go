package mcppool

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
)

// An MCP server gets only tokens of its own authorization server, on every request of a session up to the DELETE that ends it,
// and never the key with which the caller called the pool.
func TestOnlyTheServersOwnTokensGoUpstream(t *testing.T) {
	p := startGuarded(t, mcptest.Switches{}, mcptest.Guard{Sessions: true}, nil)
	for _, user := range []string{"ann", "bob"} {
		p.echo(t, user)
		p.login(t, user)
		if o := p.echo(t, user); o.text() != "hi" {
			t.Fatalf("%s: %v", user, o.err)
		}
	}
	// Deactivating closes the connection; the session is ended with the token too.
	if _, err := p.as("ann").DeactivateMcpServer(t.Context(), &mcppoolv1.DeactivateMcpServerRequest{Id: "web"}); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	p.web.With(func(w *mcptest.Resource) {
		for i, h := range w.Headers {
			value := h.Get("Authorization")
			token, ok := strings.CutPrefix(value, "Bearer access-")
			if value != "" && (!ok || p.auth.Check("access-"+token) == nil) {
				t.Errorf("%s carried %q", w.Methods[i], value)
			}
			seen[value] = true
			for name, values := range h {
				if name != "Authorization" && strings.Contains(strings.Join(values, " "), "pawl_") {
					t.Errorf("%s: %q", name, values)
				}
			}
			if w.Methods[i] == http.MethodDelete && value == "" {
				t.Error("a DELETE carried no token")
			}
		}
		if !slices.Contains(w.Methods, http.MethodDelete) {
			t.Error("no session was ended")
		}
	})
	if len(seen) != 3 {
		t.Errorf("%d different credentials, want those of two users, and none", len(seen))
	}
	p.auth.With(func(a *mcptest.Authority) {
		for _, r := range a.Requests {
			if strings.Contains(r.Encode(), "pawl_") {
				t.Errorf("the authorization server was told %v", r)
			}
		}
	})
}

// A scope that the login lacks is reported before the tool runs, and the next login asks for it.
func TestStepUpOfACall(t *testing.T) {
	p := startGuarded(t, mcptest.Switches{}, mcptest.Guard{Ask: "mcp:basic", MethodScopes: map[string][]string{"tools/call": {"mcp:write"}}}, nil)
	p.echo(t, "ann")
	p.login(t, "ann")
	o := p.echo(t, "ann")
	if o.outcome() != errs.OutcomeNotExecuted {
		t.Errorf("outcome %s", o.outcome())
	}
	wantReason(t, o.err, "LOGIN_REQUIRED", "(mcp:write): run `pawl mcp login web`")
	if done := p.login(t, "ann"); strings.Join(done.GetScopes(), " ") != "mcp:basic mcp:write" {
		t.Errorf("granted %q", done.GetScopes())
	}
	if o := p.echo(t, "ann"); o.text() != "hi" {
		t.Errorf("after the login: %v", o.err)
	}
}

// A subscription survives another login and ends with the logout.
func TestSubscriptionsEndWithTheLogin(t *testing.T) {
	p := startGuardedServer(t, mcptest.Web(mcptest.Offering), mcptest.Switches{}, mcptest.Guard{Sessions: true}, nil)
	p.echo(t, "ann")
	p.login(t, "ann")
	ctx, cancel := context.WithTimeout(t.Context(), 4*waitLimit)
	defer cancel()
	stream, err := p.as("ann").SubscribeResource(ctx, &mcppoolv1.SubscribeResourceRequest{McpId: "web", Uri: "demo://1"})
	if err != nil {
		t.Fatal(err)
	}
	next(t, stream)
	p.login(t, "ann")
	if m := next(t, stream); m.GetChanges() != 1 {
		t.Errorf("message after another login = %v", m)
	}
	if _, err := p.as("ann").DeleteMcpLogin(ctx, &mcppoolv1.DeleteMcpLoginRequest{McpId: "web"}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantReason(t, err, "LOGIN_REQUIRED", "run `pawl mcp login web`")
}

// A token that ends while a question is open is renewed. If that is impossible, the call ends with NOT_EXECUTED.
func TestLoginEndsDuringAQuestion(t *testing.T) {
	p := startGuardedServer(t, mcptest.Web(mcptest.Modern), mcptest.Switches{}, mcptest.Guard{}, nil)
	p.echo(t, "ann")
	p.login(t, "ann")
	for id, end := range map[string]func(){
		"renewed": p.auth.Revoke,
		"logged out": func() {
			if _, err := p.as("ann").DeleteMcpLogin(t.Context(), &mcppoolv1.DeleteMcpLoginRequest{McpId: "web"}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		p.login(t, "ann")
		v := converse(t, p.as("ann"), &mcppoolv1.CallToolRequest{McpId: "web", Name: "form", CallId: id})
		q := v.question()
		end()
		if err := v.answer(q, accept, `{"name":"Ada"}`); err != nil {
			t.Fatal(err)
		}
		if o := v.end(); id == "renewed" && !strings.Contains(o.text(), "Ada") || id != "renewed" && (o.reason() != "LOGIN_REQUIRED" || o.outcome() != errs.OutcomeNotExecuted) {
			t.Errorf("%s: %v, %v, %s", id, o.text(), o.err, o.outcome())
		}
	}
}

// An authorization server is reached under the same rules as any address that a server names.
func TestAuthorizationServersAtPrivateAddresses(t *testing.T) {
	auth := mcptest.NewAuthority(t, mcptest.Switches{})
	web := mcptest.Protect(t, auth, webMCP(), mcptest.Guard{})
	s := start(t, Config{}) // nothing is allowed beside what an operator registers
	_, err := s.as("op").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "web", AutoActivate: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: web.URL}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.as("ann").StartMcpLogin(t.Context(), &mcppoolv1.StartMcpLoginRequest{McpId: "web", RedirectUri: loopback})
	wantReason(t, err, "ADDRESS_REFUSED", "--allow-addresses")
	auth.With(func(a *mcptest.Authority) {
		if len(a.Paths) > 0 {
			t.Errorf("the authorization server was reached: %q", a.Paths)
		}
	})
}

func TestLoginsOfOthers(t *testing.T) {
	p := startGuarded(t, mcptest.Switches{}, mcptest.Guard{}, nil)
	_, err := p.as("ann").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "mine", Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: p.web.URL}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.as("bob").StartMcpLogin(t.Context(), &mcppoolv1.StartMcpLoginRequest{McpId: "mine", RedirectUri: loopback})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "mine")
	began, err := p.as("ann").StartMcpLogin(t.Context(), &mcppoolv1.StartMcpLoginRequest{McpId: "mine", RedirectUri: loopback})
	if err != nil {
		t.Fatal(err)
	}
	q := p.auth.Browse(began.GetAuthorizationUrl())
	finish := &mcppoolv1.FinishMcpLoginRequest{State: q.Get("state"), Code: q.Get("code"), Iss: q.Get("iss")}
	_, err = p.as("bob").FinishMcpLogin(t.Context(), finish)
	if errs.From(err).Code != codes.NotFound {
		t.Errorf("bob: %v", err)
	}
	bad := proto.CloneOf(finish)
	bad.Iss = "https://evil.example"
	_, err = p.as("ann").FinishMcpLogin(t.Context(), bad)
	wantReason(t, err, "LOGIN_REQUIRED", "is refused")
	_, err = p.as("ann").FinishMcpLogin(t.Context(), finish)
	wantReason(t, err, "LOGIN_REQUIRED", "start the login again")
	_, err = p.as("ann").StartMcpLogin(t.Context(), &mcppoolv1.StartMcpLoginRequest{McpId: "web", RedirectUri: "https://evil.example/"})
	wantReason(t, err, "INVALID_REQUEST", "redirect_uri")
	_, err = p.as("ann").DeleteMcpLogin(t.Context(), &mcppoolv1.DeleteMcpLoginRequest{McpId: "nope"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "nope")
}

// OAuth settings of an operator are used without showing the secret; plain users cannot refer to the pool's own secrets.
func TestOAuthSettings(t *testing.T) {
	t.Setenv("MCP_CLIENT_SECRET", "configured-secret")
	p := startGuarded(t, mcptest.Switches{Metadata: mcptest.Fields{"registration_endpoint": nil}}, mcptest.Guard{}, &mcppoolv1.OAuth{
		Grant: mcppoolv1.OAuth_GRANT_CLIENT_CREDENTIALS, ClientId: "configured", ClientSecret: "${env:MCP_CLIENT_SECRET}", Scopes: []string{"a"},
	})
	for _, user := range []string{"ann", "bob"} {
		if o := p.echo(t, user); o.text() != "hi" {
			t.Fatalf("%s: %v", user, o.err)
		}
	}
	if n := p.auth.Grants("client_credentials"); n != 1 {
		t.Errorf("%d logins of the pool", n)
	}
	_, err := p.as("ann").StartMcpLogin(t.Context(), &mcppoolv1.StartMcpLoginRequest{McpId: "web", RedirectUri: loopback})
	wantReason(t, err, "INVALID_REQUEST", "the pool logs in for all users")

	shown := p.state(t, "op")
	if o := shown.GetHttp().GetOauth(); o.GetClientSecret() != "***" || o.GetClientId() != "configured" || o.GetGrant() != mcppoolv1.OAuth_GRANT_CLIENT_CREDENTIALS {
		t.Errorf("shown: %v", o)
	}
	shown.GetHttp().GetOauth().Scopes = []string{"b"} // sent back, the secret is kept
	_, err = p.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: shown, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"http"}}})
	if err != nil {
		t.Fatal(err)
	}
	if o := p.echo(t, "ann"); o.text() != "hi" {
		t.Errorf("after the change: %v", o.err)
	}

	for name, o := range map[string]*mcppoolv1.OAuth{
		"environment": {ClientId: "x", ClientSecret: "${env:HOME}"}, "file": {ClientId: "x", ClientSecret: "${file:/etc/passwd}"},
	} {
		_, err := p.as("ann").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
			Id: "mine", Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: p.web.URL, Oauth: o}},
		}})
		wantReason(t, err, "PERMISSION_DENIED", "only an operator")
		if err == nil {
			t.Error(name)
		}
	}
	for want, h := range map[string]*mcppoolv1.HttpTransport{
		"client_id":       {Oauth: &mcppoolv1.OAuth{ClientSecret: "x"}},
		"give both":       {Oauth: &mcppoolv1.OAuth{Grant: mcppoolv1.OAuth_GRANT_CLIENT_CREDENTIALS, ClientId: "x"}},
		"leave out":       {Oauth: &mcppoolv1.OAuth{}, Headers: map[string]string{"authorization": "x"}},
		"not a scope":     {Oauth: &mcppoolv1.OAuth{Scopes: []string{"a b"}}},
		"no value to kee": {Oauth: &mcppoolv1.OAuth{ClientId: "x", ClientSecret: "***"}},
	} {
		h.Url = p.web.URL
		_, err := p.as("op").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
			Id: "other", Transport: &mcppoolv1.McpServer_Http{Http: h},
		}})
		wantReason(t, err, "INVALID_REQUEST", want)
	}
}

// A login outlives the pool's process, but not the registration of its server.
func TestLoginsLiveAsLongAsTheServer(t *testing.T) {
	auth := mcptest.NewAuthority(t, mcptest.Switches{})
	web := mcptest.Protect(t, auth, webMCP(), mcptest.Guard{})
	cfg := Config{DataDir: t.TempDir(), AllowAddresses: []string{"127.0.0.0/8"}}
	create := func(p *guarded) {
		t.Helper()
		_, err := p.as("op").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
			Id: "web", AutoActivate: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: web.URL}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	p := &guarded{suite: start(t, cfg), auth: auth, web: web}
	create(p)
	p.login(t, "ann")
	if o := p.echo(t, "ann"); o.text() != "hi" {
		t.Fatal(o.err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p.suite = start(t, cfg)
	if o := p.echo(t, "ann"); o.text() != "hi" {
		t.Fatalf("after a restart: %v", o.err)
	}
	if _, err := p.as("op").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "web"}); err != nil {
		t.Fatal(err)
	}
	create(p)
	if o := p.echo(t, "ann"); o.reason() != "LOGIN_REQUIRED" {
		t.Errorf("of a server that was registered again: %v", o.err)
	}
}

func TestInvalidLoginSettings(t *testing.T) {
	for ref, want := range map[string]string{"env:NO_SUCH_KEY": "NO_SUCH_KEY", "plain": "neither env:NAME nor file:PATH"} {
		if _, err := New(t.Context(), Config{TokenKey: ref}, Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for _, cfg := range []Config{{LoginRedirectURI: "http://pawl.example/x"}, {LoginClientMetadata: "http://pawl.example/x"}} {
		if _, err := New(t.Context(), cfg, Deps{}); err == nil || !strings.Contains(err.Error(), "--login-") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
