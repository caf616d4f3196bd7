package oauth

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
)

// The authorization server's answer is checked before it is used: a refused answer leads to no token request.
func TestAnswersAreChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		sw     mcptest.Switches
		change func(*Answer)
		user   string
		wait   time.Duration
		want   error
		text   string
	}{
		"another issuer":                 {sw: mcptest.Switches{Answer: mcptest.Fields{"iss": "https://evil.example"}}, want: ErrAnswer, text: `from "https://evil.example"`},
		"another issuer, not advertised": {sw: mcptest.Switches{Metadata: mcptest.Fields{"authorization_response_iss_parameter_supported": false}, Answer: mcptest.Fields{"iss": "https://evil.example"}}, want: ErrAnswer, text: "not from"},
		"no issuer, though advertised":   {sw: mcptest.Switches{Answer: mcptest.Fields{"iss": nil}}, want: ErrAnswer, text: "does not name its issuer"},
		"nearly the issuer":              {change: func(a *Answer) { a.Iss += "/" }, want: ErrAnswer, text: "not from"},
		"an error":                       {sw: mcptest.Switches{Answer: mcptest.Fields{"code": nil, "error": "access_denied", "error_description": "so <it> is"}}, want: ErrAnswer, text: `"access_denied" ("so <it> is")`},
		"an error of another issuer":     {sw: mcptest.Switches{Answer: mcptest.Fields{"code": nil, "error": "access_denied", "error_description": "so <it> is", "iss": "https://evil.example"}}, want: ErrAnswer, text: "not from"},
		"no code":                        {change: func(a *Answer) { a.Code = "" }, want: ErrAnswer, text: "no code"},
		"another user":                   {user: "bob", want: ErrUnknownLogin},
		"another state":                  {change: func(a *Answer) { a.State = newSecret() }, want: ErrUnknownLogin},
		"too late":                       {wait: loginLife + time.Second, want: ErrUnknownLogin, text: "10 minutes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{}, tt.sw, mcptest.Guard{})
			s, err := r.start("ann")
			if err != nil {
				t.Fatal(err)
			}
			a := r.answer(s)
			if tt.change != nil {
				tt.change(&a)
			}
			user := "ann"
			if tt.user != "" {
				user = tt.user
			}
			r.ahead.Store(int64(tt.wait))
			_, err = r.logins.Finish(t.Context(), user, a)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error = %v, want %v with %q", err, tt.want, tt.text)
			}
			if strings.Contains(name, "another issuer") && strings.Contains(err.Error(), "access_denied") {
				t.Errorf("the error repeats what another server says: %v", err)
			}
			if n := len(r.tokenRequests()); n > 0 {
				t.Errorf("%d token requests", n)
			}
			if r.logins.State(r.server, user) == Active {
				t.Error("logged in")
			}
		})
	}
}

// An answer without iss is fine if the server did not promise one (RFC 9207, 2.4).
func TestAnswerWithoutIssuer(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{Metadata: mcptest.Fields{"authorization_response_iss_parameter_supported": false}, Answer: mcptest.Fields{"iss": nil}}, mcptest.Guard{})
	r.login("ann")
	r.works("ann")
}

// A login is finished once, by the user who began it; another user's attempt does not use it up.
func TestLoginsAreSingleUse(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	s, err := r.start("ann")
	if err != nil {
		t.Fatal(err)
	}
	a := r.answer(s)
	if _, err := r.logins.Finish(t.Context(), "bob", a); !errors.Is(err, ErrUnknownLogin) {
		t.Errorf("bob: %v", err)
	}
	if _, err := r.logins.Finish(t.Context(), "ann", a); err != nil {
		t.Errorf("ann: %v", err)
	}
	if _, err := r.logins.Finish(t.Context(), "ann", a); !errors.Is(err, ErrUnknownLogin) {
		t.Errorf("again: %v", err)
	}
	r.works("ann")
	if status, err := r.request("bob", "tools/list"); status != http.StatusUnauthorized || kindOf(err) != mcp.LoginRequired {
		t.Errorf("bob: %d, %v", status, err)
	}
	if len(s.State) < 43 || s.Expiry.Sub(r.now()) > loginLife || s.Redirect != callbackURL {
		t.Errorf("began %+v", s)
	}
}

// Each login has a verifier of its own, which leaves the pool in the token request alone.
func TestPKCE(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	verifier := r.tokenRequests()[0].Get("code_verifier")
	sum := sha256.Sum256([]byte(verifier))
	if len(verifier) < 43 || r.asked().Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || r.asked().Has("code_verifier") {
		t.Errorf("verifier %q, asked %v", verifier, r.asked())
	}
	r.login("bob")
	if r.tokenRequests()[1].Get("code_verifier") == verifier {
		t.Error("the same verifier twice")
	}
}

// Logins that are begun and not finished are bounded.
func TestOpenLoginsAreBounded(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	first, err := r.start("ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.start("ann"); err != nil { // replaces the first
		t.Fatal(err)
	}
	if _, err := r.logins.Finish(t.Context(), "ann", r.answer(first)); !errors.Is(err, ErrUnknownLogin) {
		t.Errorf("a login that was replaced: %v", err)
	}
	for i := range maxOpenPerUser + 5 {
		r.logins.addOpen(string(rune('a'+i)), &openLogin{ref: ref{"ann", string(rune('a' + i))}, user: "ann", expiry: r.now().Add(time.Duration(i))})
	}
	r.logins.mu.Lock()
	defer r.logins.mu.Unlock()
	if n := len(r.logins.open); n != maxOpenPerUser {
		t.Errorf("%d open logins of one user", n)
	}
	if _, kept := r.logins.open["a"]; kept {
		t.Error("the oldest is still there")
	}
}

// The token endpoint's answers are checked too.
func TestTokenAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		sw   mcptest.Switches
		kind mcp.Kind
		want string
	}{
		"refused":           {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Status: 400, Body: `{"error":"invalid_grant"}`}}}, mcp.Misconfigured, `"invalid_grant"`},
		"trouble":           {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Status: 500}}}, mcp.Unavailable, "HTTP 500"},
		"a page":            {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Body: "<html>"}}}, mcp.Misconfigured, "not a token"},
		"an empty token":    {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Body: `{"access_token":"","token_type":"Bearer"}`}}}, mcp.Misconfigured, "without an access token"},
		"an error with 200": {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Body: `{"error":"bad_verification_code"}`}}}, mcp.Misconfigured, `HTTP 200: "bad_verification_code"`},
		"a header's end":    {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Body: `{"access_token":"a\r\nX: y","token_type":"Bearer"}`}}}, mcp.Misconfigured, "cannot be sent"},
		"another type":      {mcptest.Switches{Token: mcptest.Fields{"token_type": "DPoP"}}, mcp.Misconfigured, `"DPoP"`},
		"no type":           {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Body: `{"access_token":"a"}`}}}, mcp.Misconfigured, "only Bearer"},
		"a redirect":        {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Status: 307}}}, mcp.Misconfigured, "HTTP 307"},
		"a token too long":  {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Body: `{"access_token":"` + strings.Repeat("x", maxToken+1) + `","token_type":"Bearer"}`}}}, mcp.Misconfigured, "cannot be sent"},
		"an unknown client": {mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Status: 400, Body: `{"error":"invalid_client"}`}}}, mcp.Misconfigured, "invalid_client"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{}, tt.sw, mcptest.Guard{})
			_, err := r.tryLogin("ann")
			wantKind(t, err, tt.kind, tt.want)
			if r.logins.State(r.server, "ann") == Active {
				t.Error("logged in")
			}
			if name != "an unknown client" {
				return
			}
			// The server forgot the client: the next login registers again.
			r.auth.With(func(a *mcptest.Authority) { a.Switches.Replies = nil })
			r.login("ann")
			if r.registrations() != 2 {
				t.Errorf("%d registrations", r.registrations())
			}
		})
	}
}

// Codes, verifiers and secrets go where the metadata say, and do not follow a redirect.
func TestTokenRequestsAreNotRedirected(t *testing.T) {
	elsewhere := mcptest.NewAuthority(t, mcptest.Switches{})
	r := newRig(t, Config{}, mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Status: 307, Location: elsewhere.URL + "/token"}}}, mcptest.Guard{})
	_, err := r.tryLogin("ann")
	wantKind(t, err, mcp.Misconfigured, "HTTP 307")
	elsewhere.With(func(a *mcptest.Authority) {
		if len(a.Requests) > 0 {
			t.Errorf("the redirect's target got %v", a.Requests)
		}
	})
}

func TestExpiryFormats(t *testing.T) {
	for text, want := range map[string]float64{`"3600"`: 3600, `3600.5`: 3600.5, `null`: 0, `"soon"`: 0, `{}`: 0, `-5`: -5, `1e300`: 1e300} {
		var s jsonSeconds
		if err := s.UnmarshalJSON([]byte(text)); err != nil || float64(s) != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	r := newRig(t, Config{}, mcptest.Switches{Replies: map[string]mcptest.Reply{"/token": {Body: `{"access_token":"a","token_type":"Bearer","expires_in":1e300}`}}}, mcptest.Guard{})
	if f := r.login("ann"); f.Expiry.Sub(r.now()) > maxLife {
		t.Errorf("expires %v", f.Expiry)
	}
}

func TestScopes(t *testing.T) {
	for name, tt := range map[string]struct {
		sw     mcptest.Switches
		guard  mcptest.Guard
		config []string
		want   string
		prompt string
	}{
		"those of the challenge":        {guard: mcptest.Guard{Ask: "mcp:basic", Metadata: mcptest.Fields{"scopes_supported": []string{"a", "b"}}}, want: "mcp:basic"},
		"those of the metadata":         {guard: mcptest.Guard{Metadata: mcptest.Fields{"scopes_supported": []string{"a", "b"}}}, want: "a b"},
		"none":                          {sw: mcptest.Switches{Metadata: mcptest.Fields{"scopes_supported": []string{"x", offlineAccess}}}, want: ""},
		"the configured ones":           {guard: mcptest.Guard{Ask: "mcp:basic"}, config: []string{"mine"}, want: "mine"},
		"offline access, supported":     {sw: mcptest.Switches{Metadata: mcptest.Fields{"scopes_supported": []string{"x", offlineAccess}}}, guard: mcptest.Guard{Ask: "a"}, want: "a offline_access", prompt: "consent"},
		"offline access, not supported": {sw: mcptest.Switches{Metadata: mcptest.Fields{"scopes_supported": []string{"x"}}}, guard: mcptest.Guard{Ask: "a"}, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{}, tt.sw, tt.guard)
			if tt.config != nil {
				r.configure(&registry.OAuth{Scopes: tt.config})
			}
			r.login("ann")
			if q := r.asked(); q.Get("scope") != tt.want || q.Has("scope") != (tt.want != "") || q.Get("prompt") != tt.prompt {
				t.Errorf("asked %v", q)
			}
		})
	}
}

// A request that needs more scopes asks for a login with these and the present ones.
func TestStepUp(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{Ask: "mcp:basic", MethodScopes: map[string][]string{"tools/call": {"mcp:write"}}})
	r.login("ann")
	r.works("ann")
	_, err := r.request("ann", "tools/call")
	wantKind(t, err, mcp.LoginRequired, "more rights than your login has (mcp:write): run `pawl mcp login web`")
	if r.logins.State(r.server, "ann") != Required {
		t.Error("the state is not Required")
	}
	r.works("ann") // other requests still work
	r.login("ann")
	if got := r.asked().Get("scope"); got != "mcp:basic mcp:write" {
		t.Errorf("asked for %q", got)
	}
	if status, err := r.request("ann", "tools/call"); status != http.StatusOK || err != nil {
		t.Errorf("after the second login: %d, %v", status, err)
	}
	if r.logins.State(r.server, "ann") != Active {
		t.Error("the state is not Active")
	}
}

func TestStepUpIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		sw     mcptest.Switches
		logins int
	}{
		"the server grants it, and it is not enough": {logins: 1},
		"the server grants less":                     {sw: mcptest.Switches{Token: mcptest.Fields{"scope": "other"}}, logins: 2},
		"the server does not say":                    {sw: mcptest.Switches{Token: mcptest.Fields{"scope": nil}}, logins: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{}, tt.sw, mcptest.Guard{Ask: "mcp:admin", Always403: "mcp:admin"})
			for n := 1; ; n++ {
				r.login("ann")
				_, err := r.request("ann", "tools/call")
				if kindOf(err) == mcp.LoginRequired && n < 5 {
					continue
				}
				wantKind(t, err, mcp.Unauthorized, "logging in again does not give (mcp:admin)")
				if n != tt.logins {
					t.Errorf("%d logins, want %d", n, tt.logins)
				}
				return
			}
		})
	}
}

// The client that the pool uses, and how it authenticates at the token endpoint.
func TestClientAuthentication(t *testing.T) {
	const document = "https://pawl.example/client.json"
	configured := &registry.OAuth{ClientID: "configured", ClientSecret: "ref:configured-secret"}
	for name, tt := range map[string]struct {
		sw     mcptest.Switches
		config *registry.OAuth
		basic  string // the beginning of name:secret
		post   string // *: any secret
		id     string
	}{
		"registered, basic":       {sw: mcptest.Switches{Metadata: mcptest.Fields{"token_endpoint_auth_methods_supported": []string{methodPost, methodBasic}}}, basic: "client-1:"},
		"registered, post":        {sw: mcptest.Switches{Metadata: mcptest.Fields{"token_endpoint_auth_methods_supported": []string{methodPost}}}, post: "*", id: "client-1"},
		"registered, none":        {sw: mcptest.Switches{Metadata: mcptest.Fields{"token_endpoint_auth_methods_supported": []string{methodNone}}}, id: "client-1"},
		"registered, not said":    {basic: "client-1:"},
		"registered, secretless":  {sw: mcptest.Switches{Client: mcptest.Fields{"client_secret": nil}}, id: "client-1"},
		"configured, basic":       {config: configured, basic: "configured:configured-secret"},
		"configured, post":        {sw: mcptest.Switches{Metadata: mcptest.Fields{"token_endpoint_auth_methods_supported": []string{methodPost}}}, config: configured, post: "configured-secret", id: "configured"},
		"configured, documents":   {sw: mcptest.Switches{Metadata: mcptest.Fields{"client_id_metadata_document_supported": true}}, config: configured, basic: "configured:configured-secret"},
		"by a document":           {sw: mcptest.Switches{Metadata: mcptest.Fields{"client_id_metadata_document_supported": true}}, id: document},
		"configured, no register": {sw: mcptest.Switches{Metadata: mcptest.Fields{"registration_endpoint": nil}}, config: configured, basic: "configured:configured-secret"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{ClientMetadata: document}, tt.sw, mcptest.Guard{})
			r.configure(tt.config)
			r.login("ann")
			r.works("ann")
			got := r.tokenRequests()[0]
			if basic := got.Get("basic"); (basic != "") != (tt.basic != "") || !strings.HasPrefix(basic, tt.basic) {
				t.Errorf("basic %q", basic)
			}
			if post := got.Get("client_secret"); post != tt.post && (tt.post != "*" || post == "") {
				t.Errorf("post %q", post)
			}
			if tt.id != "" && got.Get("client_id") != tt.id {
				t.Errorf("client_id %q", got.Get("client_id"))
			}
			if tt.config != nil && r.registrations() > 0 {
				t.Error("a client was registered beside the configured one")
			}
			if stored, _ := r.logins.vault.token(refFor(r.server, "ann")); tt.config != nil && stored.Client.Secret != "" {
				t.Error("the configured secret is stored a second time")
			}
		})
	}
}

func TestRegistration(t *testing.T) {
	r := newRig(t, Config{RedirectURI: "https://pawl.example/v1/mcpLogins:callback"}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	r.login("bob") // the client is remembered
	if r.registrations() != 1 {
		t.Errorf("%d registrations", r.registrations())
	}
	var body map[string]any
	r.auth.With(func(a *mcptest.Authority) { body = a.Register[0] })
	want := map[string]any{
		"client_name": "Pawl", "software_id": "pawl", "application_type": "native", "redirect_uris": []any{callbackURL},
		"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"}, "token_endpoint_auth_method": methodBasic,
	}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Error(diff)
	}
	// Another redirect address is another client, and no native one.
	s, err := r.logins.Start(t.Context(), r.server, "ann", "")
	if err != nil || s.Redirect != "https://pawl.example/v1/mcpLogins:callback" {
		t.Fatal(s, err)
	}
	r.auth.With(func(a *mcptest.Authority) { body = a.Register[1] })
	if body["application_type"] != "web" {
		t.Errorf("registered %v", body)
	}
	// That login was not finished, so the client may be at fault: the next one registers again.
	r.login("ann")
	if r.registrations() != 3 {
		t.Errorf("%d registrations", r.registrations())
	}
}

// 2026-07-28: what was registered at one authorization server is never shown to another.
func TestAuthorizationServerChanges(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{Token: mcptest.Fields{"expires_in": 60}}, mcptest.Guard{})
	r.login("ann")
	other := mcptest.NewAuthority(t, mcptest.Switches{})
	first := r.auth
	r.web.With(func(w *mcptest.Resource) {
		w.Guard.Metadata = mcptest.Fields{"authorization_servers": []string{other.URL}}
	})
	first.Revoke()
	r.auth = other
	r.login("ann")
	if token, _ := r.logins.vault.token(refFor(r.server, "ann")); token.Issuer != other.URL {
		t.Errorf("issuer %q", token.Issuer)
	}
	if r.registrations() != 1 {
		t.Errorf("%d registrations at the new authorization server", r.registrations())
	}
	n := 0
	if err := r.store.Load(bucketTokens, func(string, []byte) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("%d stored logins, %v", n, err)
	}

	t.Run("with a configured client", func(t *testing.T) {
		r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
		r.configure(&registry.OAuth{ClientID: "configured", ClientSecret: "configured-secret"})
		r.login("ann")
		evil := mcptest.NewAuthority(t, mcptest.Switches{})
		r.web.With(func(w *mcptest.Resource) {
			w.Guard.Metadata = mcptest.Fields{"authorization_servers": []string{evil.URL}}
		})
		_, err := r.start("ann")
		wantKind(t, err, mcp.Misconfigured, "now names the authorization server "+evil.URL)
		r.web.With(func(w *mcptest.Resource) {
			w.Guard.Metadata = mcptest.Fields{"authorization_servers": []string{evil.URL, r.auth.URL}}
		})
		r.login("ann") // of several, the one that the client belongs to
		if err := r.logins.Forget(t.Context(), r.server, "bob", false); err != nil || r.logins.vault.boundTo(bindingKey(r.server)) == "" {
			t.Errorf("a plain user's logout: %v", err)
		}
		if err := r.logins.Forget(t.Context(), r.server, "op", true); err != nil || r.logins.vault.boundTo(bindingKey(r.server)) != "" {
			t.Errorf("an operator's logout: %v", err)
		}
		evil.With(func(a *mcptest.Authority) {
			if slices.ContainsFunc(a.Paths, func(p string) bool { return !strings.Contains(p, ".well-known") }) {
				t.Errorf("the new authorization server was asked for %q", a.Paths)
			}
		})
	})
}

func TestServersWithoutLogins(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	for name, s := range map[string]*registry.Server{
		"stdio":        {ID: "x", Stdio: &registry.Stdio{Command: "x"}},
		"a key":        {ID: "x", HTTP: &registry.HTTP{URL: r.web.URL, Headers: map[string]string{"authorization": "Bearer x"}}},
		"the pool's":   {ID: "x", HTTP: &registry.HTTP{URL: r.web.URL, OAuth: &registry.OAuth{Grant: registry.GrantClientCredentials, ClientID: "x", ClientSecret: "y"}}},
		"another's":    {ID: "x", Owner: "bob", HTTP: &registry.HTTP{URL: r.web.URL, OAuth: &registry.OAuth{Grant: registry.GrantClientCredentials, ClientID: "x", ClientSecret: "y"}}},
		"a built-in's": {ID: "x", Builtin: &registry.Builtin{Name: "x"}},
	} {
		if _, err := r.logins.Start(t.Context(), s, "ann", callbackURL); !errors.Is(err, ErrNoLogin) {
			t.Errorf("%s: start: %v", name, err)
		}
		if err := r.logins.Forget(t.Context(), s, "ann", false); !errors.Is(err, ErrNoLogin) {
			t.Errorf("%s: forget: %v", name, err)
		}
		if name == "stdio" || name == "a key" {
			if r.logins.For(s, "ann") != nil {
				t.Errorf("%s: a source of tokens", name)
			}
		}
	}
	if _, err := r.logins.Start(t.Context(), r.server, "ann", "https://evil.example/"); !errors.Is(err, ErrRedirect) {
		t.Errorf("redirect: %v", err)
	}
}
