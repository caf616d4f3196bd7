package oauth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest"
)

// Metadata are found wherever MCP allows them, with no needless requests.
func TestDiscovery(t *testing.T) {
	for name, tt := range map[string]struct {
		sw    mcptest.Switches
		guard mcptest.Guard
		paths []string // that the authorization server was asked for before the registration
	}{
		"as the challenge says":         {paths: []string{"GET /.well-known/oauth-authorization-server"}},
		"at the well-known path":        {guard: mcptest.Guard{Challenge: "Bearer"}, paths: []string{"GET /.well-known/oauth-authorization-server"}},
		"at the well-known root":        {guard: mcptest.Guard{Challenge: "Bearer", MetadataAt: "/.well-known/oauth-protected-resource"}, paths: []string{"GET /.well-known/oauth-authorization-server"}},
		"at a path in the challenge":    {guard: mcptest.Guard{MetadataAt: "/custom/place.json"}, paths: []string{"GET /.well-known/oauth-authorization-server"}},
		"OpenID at the root":            {sw: mcptest.Switches{MetadataAt: "/.well-known/openid-configuration"}, paths: []string{"GET /.well-known/oauth-authorization-server", "GET /.well-known/openid-configuration"}},
		"an issuer with a path":         {sw: mcptest.Switches{Path: "/tenant1"}, paths: []string{"GET /.well-known/oauth-authorization-server/tenant1"}},
		"OpenID, path inserted":         {sw: mcptest.Switches{Path: "/tenant1", MetadataAt: "/.well-known/openid-configuration/tenant1"}, paths: []string{"GET /.well-known/oauth-authorization-server/tenant1", "GET /.well-known/openid-configuration/tenant1"}},
		"OpenID, path appended":         {sw: mcptest.Switches{Path: "/tenant1", MetadataAt: "/tenant1/.well-known/openid-configuration"}, paths: []string{"GET /.well-known/oauth-authorization-server/tenant1", "GET /.well-known/openid-configuration/tenant1", "GET /tenant1/.well-known/openid-configuration"}},
		"a challenge without Bearer":    {guard: mcptest.Guard{Challenge: "-"}, paths: []string{"GET /.well-known/oauth-authorization-server"}},
		"a resource above the server's": {guard: mcptest.Guard{Metadata: mcptest.Fields{"resource": "SELF"}}, paths: []string{"GET /.well-known/oauth-authorization-server"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{}, tt.sw, tt.guard)
			want := r.web.URL
			if tt.guard.Metadata != nil {
				want = r.web.Base
			}
			if status, err := r.request("ann", "tools/list"); status != http.StatusUnauthorized || kindOf(err) != mcp.LoginRequired {
				t.Fatalf("without a login: %d, %v", status, err)
			}
			r.login("ann")
			r.works("ann")
			if got := r.asked().Get("resource"); got != want {
				t.Errorf("resource %q, want %q", got, want)
			}
			if got := r.tokenRequests()[0].Get("resource"); got != want {
				t.Errorf("resource %q of the token, want %q", got, want)
			}
			r.auth.With(func(a *mcptest.Authority) {
				if diff := cmp.Diff(tt.paths, a.Paths[:len(tt.paths)]); diff != "" || !strings.HasPrefix(a.Paths[len(tt.paths)], "POST ") {
					t.Errorf("%s\n%q", diff, a.Paths)
				}
			})
			if q := r.asked(); q.Get("keep") != "this" || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
				t.Errorf("asked %v", q)
			}
		})
	}
}

// A server of 2025-03-26 is its own authorization server, with or without metadata.
func TestDiscoveryWithoutResourceMetadata(t *testing.T) {
	for name, at := range map[string]string{"with metadata": "", "without": "-"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{}, mcptest.Switches{MetadataAt: at}, mcptest.Guard{MetadataAt: "-", Challenge: "Bearer", SameHost: true})
			r.auth.With(func(a *mcptest.Authority) { a.Switches.Metadata = mcptest.Fields{"issuer": r.web.Base} })
			r.login("ann")
			r.works("ann")
			if token, _ := r.logins.vault.token(refFor(r.server, "ann")); token.Issuer != r.web.Base {
				t.Errorf("issuer %q", token.Issuer)
			}
		})
	}
	t.Run("nothing at all", func(t *testing.T) {
		r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{MetadataAt: "-", Challenge: "-"})
		_, err := r.start("ann")
		wantKind(t, err, mcp.Misconfigured, "put the key into the server's `headers`")
	})
}

// Metadata that do not fit the server are refused, and no browser is sent anywhere.
func TestDiscoveryRefuses(t *testing.T) {
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat(" ", maxResponse+1)))
	}))
	defer huge.Close()
	away := httptest.NewServer(http.RedirectHandler("http://10.0.0.1/metadata", http.StatusFound))
	defer away.Close()
	round := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
	}))
	defer round.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer broken.Close()
	for name, tt := range map[string]struct {
		sw    mcptest.Switches
		guard mcptest.Guard
		kind  mcp.Kind
		want  string
	}{
		"another resource":             {guard: mcptest.Guard{Metadata: mcptest.Fields{"resource": "https://evil.example/mcp"}}, kind: mcp.Misconfigured, want: "a login would be for another server"},
		"a resource beside":            {guard: mcptest.Guard{Metadata: mcptest.Fields{"resource": "SELF/mc"}}, kind: mcp.Misconfigured, want: "another server"},
		"a resource below":             {guard: mcptest.Guard{Metadata: mcptest.Fields{"resource": "SELF/mcp/more"}}, kind: mcp.Misconfigured, want: "another server"},
		"a resource with a query":      {guard: mcptest.Guard{Metadata: mcptest.Fields{"resource": "SELF/mcp?a=b"}}, kind: mcp.Misconfigured, want: "another server"},
		"no authorization server":      {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": []string{}}}, kind: mcp.Misconfigured, want: "name 0 authorization servers"},
		"too many":                     {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": make([]string, 21)}}, kind: mcp.Misconfigured, want: "name 21"},
		"one without TLS":              {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": []string{"http://auth.example"}}}, kind: mcp.Misconfigured, want: "must use https"},
		"one with a password":          {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": []string{"https://a:b@auth.example"}}}, kind: mcp.Misconfigured, want: "not an address"},
		"one that is no web address":   {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": []string{"file:///etc/passwd"}}}, kind: mcp.Misconfigured, want: "not an address"},
		"one with a query":             {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": []string{huge.URL + "?a=b"}}}, kind: mcp.Misconfigured, want: "has a query"},
		"one that answers for another": {sw: mcptest.Switches{Metadata: mcptest.Fields{"issuer": "https://attacker.example"}}, kind: mcp.Misconfigured, want: "are of the authorization server"},
		"nearly the same issuer":       {sw: mcptest.Switches{Path: "/tenant", Metadata: mcptest.Fields{"issuer": "SELF/"}}, kind: mcp.Misconfigured, want: "are of the authorization server"},
		"no metadata":                  {sw: mcptest.Switches{MetadataAt: "-"}, kind: mcp.Misconfigured, want: "no metadata"},
		"no PKCE":                      {sw: mcptest.Switches{Metadata: mcptest.Fields{"code_challenge_methods_supported": nil}}, kind: mcp.Misconfigured, want: "PKCE"},
		"no registration":              {sw: mcptest.Switches{Metadata: mcptest.Fields{"registration_endpoint": nil}}, kind: mcp.Misconfigured, want: "oauth.client_id"},
		"a registration refused":       {sw: mcptest.Switches{Replies: map[string]mcptest.Reply{"/register": {Status: 400, Body: `{"error":"invalid_redirect_uri","error_description":"not <there>"}`}}}, kind: mcp.Misconfigured, want: `invalid_redirect_uri`},
		"a registration that may pass": {sw: mcptest.Switches{Replies: map[string]mcptest.Reply{"/register": {Status: 503, Body: `{"error":"invalid_redirect_uri","error_description":"not <there>"}`}}}, kind: mcp.Unavailable, want: "HTTP 503"},
		"an unknown authentication":    {sw: mcptest.Switches{Metadata: mcptest.Fields{"token_endpoint_auth_methods_supported": []string{"tls_client_auth"}}}, kind: mcp.Misconfigured, want: "tls_client_auth"},
		"too much":                     {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": []string{huge.URL}}}, kind: mcp.TooLarge, want: "256 KiB"},
		"a redirect without TLS":       {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": []string{away.URL}}}, kind: mcp.Misconfigured, want: "must use https"},
		"redirects for ever":           {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": []string{round.URL}}}, kind: mcp.Misconfigured, want: "more than 3 times"},
		"a server in trouble":          {guard: mcptest.Guard{Metadata: mcptest.Fields{"authorization_servers": []string{broken.URL}}}, kind: mcp.Unavailable, want: "HTTP 502"},
		"metadata that are not there":  {guard: mcptest.Guard{Challenge: `Bearer resource_metadata="SELF/nowhere"`}, kind: mcp.Misconfigured, want: "HTTP 404"},
		"metadata without TLS":         {guard: mcptest.Guard{Challenge: `Bearer resource_metadata="http://10.0.0.1/x"`}, kind: mcp.Misconfigured, want: "must use https"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{}, tt.sw, tt.guard)
			s, err := r.start("ann")
			wantKind(t, err, tt.kind, tt.want)
			if s.URL != "" || len(r.tokenRequests()) > 0 || r.asked() != nil {
				t.Errorf("the login continued: %+v", s)
			}
			if err != nil && !strings.Contains(err.Error(), "MCP server web") {
				t.Errorf("the error does not say which server: %v", err)
			}
		})
	}
}

// The one tolerance: an issuer's empty path may be written as a slash, as some libraries do.
func TestIssuerWithASlash(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.web.With(func(w *mcptest.Resource) {
		w.Guard.Metadata = mcptest.Fields{"authorization_servers": []string{r.auth.URL + "/"}}
	})
	r.login("ann")
	r.works("ann")
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"https://a.example", "https://a.example/", true}, {"https://a.example/", "https://a.example", true},
		{"https://a.example/x", "https://a.example/x/", false}, {"https://a.example", "https://A.example", false},
		{"https://a.example", "https://a.example:443", false}, {"https://a.example//", "https://a.example", false},
	} {
		if sameIssuer(tt.a, tt.b) != tt.same {
			t.Errorf("%s, %s: %v", tt.a, tt.b, !tt.same)
		}
	}
}

func TestServerWithoutTLS(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	s := r.server.Clone()
	s.HTTP.URL = "http://mcp.example/mcp"
	r.server = s.Seal()
	_, err := r.start("ann")
	wantKind(t, err, mcp.Misconfigured, "must use https")
}

func TestRedirectAddresses(t *testing.T) {
	for text, ok := range map[string]bool{
		"http://127.0.0.1:1/cb": true, "http://localhost/": true, "http://[::1]:9/x": true, "https://pawl.example/v1/mcpLogins:callback": true, "": true,
		"http://127.0.0.1.evil.example/": false, "http://10.0.0.1/": false, "https://evil.example/": false, "https://127.0.0.1/": false,
		"http://a@127.0.0.1/": false, "http://127.0.0.1/?a=b": false, "http://127.0.0.1/#x": false, "pawl://x": false, "javascript:alert(1)": false,
		"https://pawl.example/v1/mcpLogins:callback2": false, "http://0.0.0.0/": false,
	} {
		_, err := chooseRedirect(text, "https://pawl.example/v1/mcpLogins:callback")
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrRedirect) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := chooseRedirect("", ""); !errors.Is(err, ErrRedirect) {
		t.Errorf("nowhere: %v", err)
	}
	for text, ok := range map[string]bool{"": true, "https://pawl.example/x": true, "http://127.0.0.1:7410/x": true, "http://pawl.example/x": false} {
		if err := CheckRedirect(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{"": true, "https://pawl.example/client.json": true, "https://pawl.example": false, "http://127.0.0.1/x": false} {
		if err := CheckDocument(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestResourceID(t *testing.T) {
	for text, want := range map[string]string{
		"HTTPS://A.example/": "https://a.example", "https://a.example:8443/MCP/?key=x": "https://a.example:8443/MCP/", "https://a.example/a%2Fb": "https://a.example/a%2Fb",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := resourceID(u); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
