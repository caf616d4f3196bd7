// Package identitytest has a local OpenID Connect provider for tests. It serves discovery and keys, and signs tokens, valid ones and forgeries.
package identitytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// Provider is a local OpenID Connect provider.
type Provider struct {
	*httptest.Server
	http.ServeMux                  // to which a test may add paths
	Now           func() time.Time // of its tokens
	Fetches       atomic.Int32     // of the keys
	Down          atomic.Bool      // answers with 503

	mu   sync.Mutex // guards the following
	oidc oidctest.Server
	keys []Key
}

// NewProvider starts a provider that publishes one RSA key with the id k1, and ends with the test.
func NewProvider(t testing.TB) *Provider {
	p := &Provider{Now: time.Now}
	p.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.oidc.ServeHTTP(w, r)
	})
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	p.oidc.SetIssuer(p.URL)
	p.Publish(RSA("k1"))
	return p
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/keys" {
		p.Fetches.Add(1)
	}
	if p.Down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	p.ServeMux.ServeHTTP(w, r)
}

// SetIssuer changes the issuer from the provider's own address.
func (p *Provider) SetIssuer(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oidc.SetIssuer(url)
}

// Publish replaces the provider's keys. Tokens are signed with the last one.
func (p *Provider) Publish(keys ...Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys, p.oidc.PublicKeys = keys, nil
	for _, k := range keys {
		p.oidc.PublicKeys = append(p.oidc.PublicKeys, oidctest.PublicKey{PublicKey: k.Public(), KeyID: k.ID, Algorithm: k.Algorithm})
	}
}

// Key returns the key with which tokens are signed.
func (p *Provider) Key() Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[len(p.keys)-1]
}

// Token returns a token of the user ann for the audience `pawl`, valid for an hour, with these claims changed; nil deletes a claim.
func (p *Provider) Token(edits map[string]any) string { return p.Key().Sign(p.Claims(edits)) }

// Claims returns the claims of Token.
func (p *Provider) Claims(edits map[string]any) string {
	now := p.Now()
	claims := map[string]any{"iss": p.URL, "aud": "pawl", "sub": "ann", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(claims, edits)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	raw, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// Entry returns the provider's entry of an issuer file, with more fields.
func (p *Provider) Entry(more string) string {
	return fmt.Sprintf("- issuer: %s\n  audience: pawl\n%s", p.URL, more)
}

// File writes an issuer file, and returns its path.
func File(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "issuers.yaml")
	Write(t, path, content)
	return path
}

// Write replaces a file with another one, so that it differs even within the resolution of its time.
func Write(t testing.TB, path, content string) {
	t.Helper()
	next := path + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(content), 0o600), os.Rename(next, path)); err != nil {
		t.Fatal(err)
	}
}

// Key signs tokens.
type Key struct {
	ID, Algorithm string
	crypto.Signer
}

// RSA returns a new key for RS256.
func RSA(id string) Key {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return Key{id, "RS256", k}
}

// ECDSA returns a new key for ES256.
func ECDSA(id string) Key {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return Key{id, "ES256", k}
}

// Sign returns a token with these claims.
func (k Key) Sign(claims string) string {
	return oidctest.SignIDToken(k.Signer, k.ID, k.Algorithm, claims)
}
