package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
)

func oauthOf(id, secret string) *registry.OAuth {
	return &registry.OAuth{ClientID: id, ClientSecret: secret}
}

func credentials(id, secret string) *registry.OAuth {
	o := oauthOf(id, secret)
	o.Grant = registry.GrantClientCredentials
	return o
}

// Client credentials: the pool logs in by itself, for all users and for connections that users share.
func TestClientCredentials(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{Token: mcptest.Fields{"expires_in": 600}}, mcptest.Guard{Ask: "mcp:basic"})
	r.configure(credentials("configured", "ref:configured-secret"))
	for _, user := range []string{"ann", "bob", ""} {
		r.works(user)
	}
	if n := r.auth.Grants("client_credentials"); n != 1 {
		t.Errorf("%d logins of the pool", n)
	}
	if got := r.tokenRequests()[0]; got.Get("scope") != "mcp:basic" || got.Get("resource") != r.web.URL || got.Get("basic") != "configured:configured-secret" {
		t.Errorf("asked %v", got)
	}
	r.move(9*time.Minute + 30*time.Second)
	r.works("ann")
	r.auth.Revoke()
	r.works("bob")
	if n := r.auth.Grants("client_credentials"); n != 3 || r.auth.Grants("refresh_token") != 0 {
		t.Errorf("%d logins of the pool", n)
	}
	if r.logins.State(r.server, "ann") != Active {
		t.Error("the state is not Active")
	}
	if err := r.logins.Forget(t.Context(), r.server, "ann", true); err != nil {
		t.Error(err)
	}
	if token, _ := r.logins.vault.token(refFor(r.server, "")); token != nil {
		t.Error("the login is still there")
	}
}

func TestClientCredentialsFail(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{MethodScopes: map[string][]string{"tools/call": {"more"}}})
	r.configure(credentials("configured", "wrong"))
	_, err := r.request("ann", "tools/list")
	wantKind(t, err, mcp.Misconfigured, `logging the pool in to MCP server web`)
	if strings.Contains(err.Error(), "wrong") {
		t.Errorf("the error has the secret: %v", err)
	}
	r.configure(credentials("configured", "configured-secret"))
	_, err = r.request("ann", "tools/call")
	if status, again := r.request("ann", "tools/call"); err != nil && status != http.StatusForbidden {
		t.Errorf("%v, %d, %v", err, status, again)
	} else {
		wantKind(t, again, mcp.Unauthorized, "oauth.scopes")
	}
	// If a token is refused right after it was issued, no further one is requested.
	r.auth.With(func(a *mcptest.Authority) {
		a.Switches.Replies = map[string]mcptest.Reply{"/token": {Body: `{"access_token":"wrong","token_type":"Bearer"}`}}
	})
	r.auth.Revoke()
	before := len(r.tokenRequests())
	_, err = r.request("ann", "tools/list")
	wantKind(t, err, mcp.Unauthorized, "just gave")
	if n := len(r.tokenRequests()) - before; n != 1 {
		t.Errorf("%d token requests", n)
	}
	// The secret does not go to another authorization server.
	evil := mcptest.NewAuthority(t, mcptest.Switches{})
	r.web.With(func(w *mcptest.Resource) {
		w.Guard.Metadata = mcptest.Fields{"authorization_servers": []string{evil.URL}}
	})
	_, err = r.request("ann", "tools/list")
	wantKind(t, err, mcp.Misconfigured, "now names the authorization server")
	evil.With(func(a *mcptest.Authority) {
		if len(a.Requests) > 0 {
			t.Errorf("another authorization server got %v", a.Requests)
		}
	})
}

// A connection that users share carries no user's token.
func TestSharedConnectionsHaveNoUsersToken(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	_, err := r.request("", "tools/list")
	wantKind(t, err, mcp.Unauthorized, "client_credentials")
	r.web.With(func(w *mcptest.Resource) {
		if got := w.Headers[len(w.Headers)-1].Get("Authorization"); got != "" {
			t.Errorf("the request carried %q", got)
		}
	})
	// Nor does it carry the pool's own token once client credentials are no longer configured.
	r.configure(credentials("configured", "configured-secret"))
	r.works("")
	r.configure(nil)
	if token, err := r.logins.For(r.server, "").Token(t.Context()); token != "" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
}

// A secret that is a private key signs instead of being sent (private_key_jwt).
func TestPrivateKey(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for alg, key := range map[string]crypto.Signer{"ES256": ec, "RS256": rs, "EdDSA": ed} {
		t.Run(alg, func(t *testing.T) {
			der, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
			r := newRig(t, Config{}, mcptest.Switches{Metadata: mcptest.Fields{"token_endpoint_auth_methods_supported": []string{methodKey}}}, mcptest.Guard{})
			r.auth.With(func(a *mcptest.Authority) {
				a.Switches.ClientKey = func(assertion string) bool { return verified(t, assertion, alg, key.Public(), r.auth.URL) }
			})
			r.configure(credentials("signer", text))
			r.works("ann")
			if got := r.tokenRequests()[0]; got.Has("client_secret") || got.Has("basic") || got.Get("client_assertion_type") == "" {
				t.Errorf("asked %v", got)
			}
		})
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(p384)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"-----BEGIN nonsense": "PEM", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})): "PEM",
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})): "P-256",
	} {
		_, err := signAssertion(text, "id", "https://auth.example", time.Now())
		wantKind(t, err, mcp.Misconfigured, want)
	}
}

// verified checks an assertion as an authorization server does.
func verified(t *testing.T, assertion, alg string, public crypto.PublicKey, issuer string) bool {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		t.Errorf("assertion %q", assertion)
		return false
	}
	var header, claims map[string]any
	for i, to := range []*map[string]any{&header, &claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(text, to) != nil {
			t.Errorf("part %d of %q", i, assertion)
		}
	}
	life := claims["exp"].(float64) - claims["iat"].(float64)
	if header["alg"] != alg || claims["iss"] != "signer" || claims["sub"] != "signer" || claims["aud"] != issuer || claims["jti"] == "" || life > 300 {
		t.Errorf("header %v, claims %v", header, claims)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Error(err)
	}
	text := []byte(parts[0] + "." + parts[1])
	sum := sha256.Sum256(text)
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		return len(signature) == 64 && ecdsa.Verify(k, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(k, text, signature)
	}
	return false
}
