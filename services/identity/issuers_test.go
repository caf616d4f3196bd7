package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	jose "github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"pawl.dev/services/errs"
)

// provider is a local OpenID Connect provider.
type provider struct {
	*httptest.Server
	clock   *clock
	fetches atomic.Int32 // of the keys
	down    atomic.Bool

	mu   sync.Mutex
	oidc *oidctest.Server
}

func newProvider(t testing.TB, c *clock) *provider {
	t.Helper()
	p := &provider{clock: c, oidc: &oidctest.Server{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			p.fetches.Add(1)
		}
		if p.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.oidc.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	p.oidc.SetIssuer(p.URL)
	return p
}

// publish replaces the keys.
func (p *provider) publish(keys ...oidctest.PublicKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oidc.PublicKeys = keys
}

// claims returns the claims of a valid token of ann, changed by edits; nil deletes.
func (p *provider) claims(edits map[string]any) string {
	now := p.clock.now()
	claims := map[string]any{
		"iss": p.URL, "aud": "pawl", "sub": "ann", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, edits)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	raw, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func rsaKey(t testing.TB, id string) (*rsa.PrivateKey, oidctest.PublicKey) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k, oidctest.PublicKey{PublicKey: k.Public(), KeyID: id, Algorithm: "RS256"}
}

func issuerFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "issuers.yaml")
	writeIssuers(t, path, content)
	return path
}

// writeIssuers replaces the file with another one, so that it differs even within the resolution of its time.
func writeIssuers(t testing.TB, path, content string) {
	t.Helper()
	next := path + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(content), 0o600), os.Rename(next, path)); err != nil {
		t.Fatal(err)
	}
}

// openIssuers opens a file with that clock.
func openIssuers(t testing.TB, path string, c *clock) *Issuers {
	t.Helper()
	s := newIssuers(path)
	s.now = c.now
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	return s
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func entry(p *provider, more string) string {
	return fmt.Sprintf("- issuer: %s\n  audience: pawl\n%s", p.URL, more)
}

// refusedWith reports a failure unless a token is refused with a message that contains want.
func refusedWith(t *testing.T, a Authenticator, token, want string) {
	t.Helper()
	p, err := a.Authenticate(ctx, token)
	if errs.Reason(err) != noAuth || !strings.Contains(err.Error(), want) {
		t.Errorf("principal %+v, error %v; want UNAUTHENTICATED with %q", p, err, want)
	}
}

func accept(t testing.TB, a Authenticator, token string) Principal {
	t.Helper()
	p, err := a.Authenticate(ctx, token)
	if err != nil {
		t.Fatalf("the token was refused: %v", err)
	}
	return p
}

// tamper replaces the header of a token.
func tamper(token, header string) string {
	_, rest, _ := strings.Cut(token, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + rest
}

// Issue 13, shown by 1: forged and foreign tokens are refused with the check that failed.
func TestRefusedTokens(t *testing.T) {
	c := newClock()
	p, other := newProvider(t, c), newProvider(t, c)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	other.publish(public)
	s := openIssuers(t, issuerFile(t, "issuers:\n"+entry(p, "")), c)
	signed := func(edits map[string]any) string { return oidctest.SignIDToken(key, "k1", "RS256", p.claims(edits)) }
	valid := signed(nil)
	want := Principal{Sub: "ann", Roles: []Role{RoleUser}, Issuer: p.URL, Expires: c.now().Add(time.Hour)}
	if diff := cmp.Diff(want, accept(t, s, valid), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Fatalf("principal (-want +got):\n%s", diff)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(key.Public()))})
	stranger, _ := rsaKey(t, "k1")
	unsigned := tamper(valid, `{"alg":"none"}`)
	now := c.now()
	for name, test := range map[string]struct{ token, want string }{
		"no token":             {"", "neither"},
		"no JWT":               {"abc", "neither"},
		"a JWT of five parts":  {"a.b.c.d.e", "neither"},
		"payload is no JSON":   {"e30.YWJj.e30", "neither"},
		"wrong issuer":         {oidctest.SignIDToken(key, "k1", "RS256", other.claims(nil)), "issuer"},
		"no issuer":            {signed(map[string]any{"iss": nil}), "issuer"},
		"wrong audience":       {signed(map[string]any{"aud": "mail"}), "audience"},
		"no audience":          {signed(map[string]any{"aud": nil}), "audience"},
		"alg none":             {unsigned[:strings.LastIndexByte(unsigned, '.')+1], "algorithms"},
		"alg none, signature":  {unsigned, "algorithms"},
		"HS256, public key":    {oidctest.SignIDToken(publicPEM, "k1", "HS256", p.claims(nil)), "algorithms"},
		"HS256, DER":           {oidctest.SignIDToken(x509.MarshalPKCS1PublicKey(&key.PublicKey), "k1", "HS256", p.claims(nil)), "algorithms"},
		"algorithm not listed": {oidctest.SignIDToken(key, "k1", "RS512", p.claims(nil)), "algorithms"},
		"unknown key id":       {oidctest.SignIDToken(key, "k2", "RS256", p.claims(nil)), "does not publish"},
		"another's key":        {oidctest.SignIDToken(stranger, "k1", "RS256", p.claims(nil)), "signature"},
		"own key in header":    {ownKey(t, stranger, p.claims(nil)), "signature"},
		"changed payload":      {withPayloadOf(valid, signed(map[string]any{"sub": "eve"})), "signature"},
		"logout token":         {typed(t, key, "logout+jwt", p.claims(nil)), "kind"},
		"expired":              {signed(map[string]any{"exp": now.Add(-time.Minute).Unix()}), "expired"},
		"never expires":        {signed(map[string]any{"exp": nil}), "does not expire"},
		"not yet valid":        {signed(map[string]any{"nbf": now.Add(time.Minute).Unix()}), "not valid before"},
		"issued in the future": {signed(map[string]any{"iat": now.Add(time.Minute).Unix()}), "not valid before"},
		"no user":              {signed(map[string]any{"sub": nil}), "sub"},
		"user with spaces":     {signed(map[string]any{"sub": "a b"}), "sub"},
		"user is a number":     {signed(map[string]any{"sub": 7}), ""},
	} {
		t.Run(name, func(t *testing.T) { refusedWith(t, s, test.token, test.want) })
	}
	accept(t, s, typed(t, key, "at+jwt", p.claims(nil)))
	accept(t, s, signed(map[string]any{"aud": []string{"mail", "pawl"}}))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func sign(t *testing.T, key crypto.PrivateKey, o *jose.SignerOptions, claims string) string {
	t.Helper()
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, o))
	return must(must(signer.Sign([]byte(claims))).CompactSerialize())
}

// ownKey returns a token whose header holds the key that proves it.
func ownKey(t *testing.T, key *rsa.PrivateKey, claims string) string {
	t.Helper()
	return sign(t, key, (&jose.SignerOptions{EmbedJWK: true}).WithHeader("kid", "k1"), claims)
}

func typed(t *testing.T, key crypto.PrivateKey, typ, claims string) string {
	t.Helper()
	return sign(t, key, (&jose.SignerOptions{}).WithType(jose.ContentType(typ)).WithHeader("kid", "k1"), claims)
}

// withPayloadOf returns a token with the payload of another.
func withPayloadOf(token, other string) string {
	parts, others := strings.Split(token, "."), strings.Split(other, ".")
	return strings.Join([]string{parts[0], others[1], parts[2]}, ".")
}

// Issue 13, shown by 4: the clocks of issuer and service may differ by the skew; a remembered token expires too.
func TestClockSkew(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	for setting, skew := range map[string]time.Duration{"": 30 * time.Second, "  clock_skew: 0s\n": 0, "  clock_skew: 2m\n": 2 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			s := openIssuers(t, issuerFile(t, "issuers:\n"+entry(p, setting)), c)
			now := c.now()
			at := func(claim string, d time.Duration) string {
				return oidctest.SignIDToken(key, "k1", "RS256", p.claims(map[string]any{claim: now.Add(d).Unix()}))
			}
			accept(t, s, at("nbf", skew))
			refusedWith(t, s, at("nbf", skew+time.Second), "not valid before")
			refusedWith(t, s, at("exp", -skew), "expired")
			last := at("exp", 10*time.Second)
			accept(t, s, last)
			c.add(skew + 9*time.Second)
			accept(t, s, last)
			c.add(time.Second)
			refusedWith(t, s, last, "expired")
		})
	}
}

// Issue 13, shown by 4: a new key is accepted at its first token, and the old one is refused once the issuer no longer publishes it.
func TestKeyRotation(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	first, firstPublic := rsaKey(t, "k1")
	second, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secondPublic := oidctest.PublicKey{PublicKey: second.Public(), KeyID: "k2", Algorithm: "ES256"}
	p.publish(firstPublic)
	s := openIssuers(t, issuerFile(t, "issuers:\n"+entry(p, "")), c)
	old := oidctest.SignIDToken(first, "k1", "RS256", p.claims(nil))
	accept(t, s, old)
	p.publish(firstPublic, secondPublic)
	c.add(refetchAfter)
	accept(t, s, oidctest.SignIDToken(second, "k2", "ES256", p.claims(nil)))
	accept(t, s, old)
	p.publish(secondPublic)
	c.add(keysFresh)
	waitFor(t, func() bool { _, err := s.Authenticate(ctx, old); return err != nil })
	c.add(refetchAfter)
	refusedWith(t, s, old, "does not publish")
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatal("it did not happen within 10 s")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// Forged key ids cause one request per refetchAfter, however many arrive, and remembered tokens cause none.
func TestForgedKeyIDsCauseFewRequests(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	s := openIssuers(t, issuerFile(t, "issuers:\n"+entry(p, "")), c)
	accept(t, s, oidctest.SignIDToken(key, "k1", "RS256", p.claims(nil)))
	for round := range 3 {
		c.add(refetchAfter)
		var group sync.WaitGroup
		for i := range 20 {
			forged := oidctest.SignIDToken(key, fmt.Sprint("forged", round, i), "RS256", p.claims(nil))
			group.Go(func() { refusedWith(t, s, forged, "does not publish") })
		}
		group.Wait()
	}
	if n := p.fetches.Load(); n != 4 {
		t.Errorf("%d requests for keys; want the first and one per round", n)
	}
}

// The last keys serve while the issuer is down, for an hour; then all its tokens are refused until it is back.
func TestIssuerDown(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	s := openIssuers(t, issuerFile(t, "issuers:\n"+entry(p, "")), c)
	token := func() string {
		return oidctest.SignIDToken(key, "k1", "RS256", p.claims(map[string]any{"exp": c.now().Add(3 * time.Hour).Unix()}))
	}
	remembered := token()
	accept(t, s, remembered)
	p.down.Store(true)
	c.add(keysUsable - time.Minute)
	accept(t, s, token())
	accept(t, s, remembered)
	c.add(time.Minute)
	refusedWith(t, s, token(), "cannot be fetched")
	refusedWith(t, s, remembered, "cannot be fetched")
	p.down.Store(false)
	c.add(refetchAfter)
	accept(t, s, remembered)
}

func TestIssuerThatWasNeverReached(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	p.down.Store(true)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	s := openIssuers(t, issuerFile(t, "issuers:\n"+entry(p, "")), c)
	token := oidctest.SignIDToken(key, "k1", "RS256", p.claims(nil))
	refusedWith(t, s, token, "cannot be fetched")
	p.down.Store(false)
	c.add(refetchAfter)
	accept(t, s, token)
}

// A discovery document of another issuer gives no keys.
func TestDiscoveryOfAnotherIssuer(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"issuer": "https://other.example", "jwks_uri": %q}`, p.URL+"/keys")
	}))
	t.Cleanup(web.Close)
	s := openIssuers(t, issuerFile(t, fmt.Sprintf("issuers:\n- {issuer: %q, audience: pawl}\n", web.URL)), c)
	refusedWith(t, s, oidctest.SignIDToken(key, "k1", "RS256", p.claims(map[string]any{"iss": web.URL})), "cannot be fetched")
}

// Issue 13, shown by 4: an issuer that is removed from the file is refused within a second, also for tokens that were accepted.
func TestRevokedIssuer(t *testing.T) {
	c := newClock()
	p, other := newProvider(t, c), newProvider(t, c)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	other.publish(public)
	path := issuerFile(t, "issuers:\n"+entry(p, "")+entry(other, "  prefix: 'o:'\n"))
	s := openIssuers(t, path, c)
	token := oidctest.SignIDToken(key, "k1", "RS256", p.claims(nil))
	others := oidctest.SignIDToken(key, "k1", "RS256", other.claims(nil))
	accept(t, s, token)
	if sub := accept(t, s, others).Sub; sub != "o:ann" {
		t.Errorf("the user of the other issuer is %q", sub)
	}
	writeIssuers(t, path, "issuers: [")
	c.add(recheckAfter)
	accept(t, s, token)
	fetches := other.fetches.Load()
	writeIssuers(t, path, "issuers:\n"+entry(other, "  prefix: 'o:'\n"))
	c.add(recheckAfter)
	refusedWith(t, s, token, "issuer of the token is not accepted")
	accept(t, s, others)
	if n := other.fetches.Load(); n != fetches {
		t.Errorf("the change caused %d requests to an issuer that stayed", n-fetches)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.add(recheckAfter)
	refusedWith(t, s, others, "issuer of the token is not accepted")
}

func TestClaims(t *testing.T) {
	c := newClock()
	p, other := newProvider(t, c), newProvider(t, c)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	s := openIssuers(t, issuerFile(t, "issuers:\n"+entry(other, "  prefix: 'x:'\n")+entry(p, `  sub_claim: email
  roles_claim: realm_access.roles
  default_roles: []
  roles:
    staff: [user]
    admins: [user, operator]
    "Two Words": [service]
`)), c)
	signed := func(email string, groups any) string {
		return oidctest.SignIDToken(key, "k1", "RS256", p.claims(map[string]any{"email": email, "realm_access": map[string]any{"roles": groups}}))
	}
	for name, test := range map[string]struct {
		groups any
		want   []Role
	}{
		"one of several":   {[]any{"other", "staff", 7}, []Role{RoleUser}},
		"union":            {[]string{"staff", "admins"}, []Role{RoleUser, RoleOperator}},
		"a string":         {"admins", []Role{RoleUser, RoleOperator}},
		"a string, spaces": {"Two Words", []Role{RoleService}},
	} {
		t.Run(name, func(t *testing.T) {
			got := accept(t, s, signed("a@b", test.groups))
			if got.Sub != "a@b" || !cmp.Equal(got.Roles, test.want) {
				t.Errorf("principal %+v, want the roles %v", got, test.want)
			}
		})
	}
	for _, groups := range []any{nil, []string{"other"}, "x admins", map[string]any{"admins": true}} {
		refusedWith(t, s, signed("a@b", groups), "no role")
	}
	refusedWith(t, s, signed("x:ann", "staff"), "another issuer")
	refusedWith(t, s, signed("", "staff"), "email")
}

func TestBadIssuerFiles(t *testing.T) {
	one := "issuers:\n- issuer: https://a.example\n  audience: pawl\n"
	for name, test := range map[string]struct{ content, want string }{
		"empty":             {"", "no issuers"},
		"unknown field":     {one + "  clockskew: 1s\n", "clockskew"},
		"no audience":       {"issuers: [{issuer: https://a.example}]", "audience"},
		"http":              {"issuers: [{issuer: http://a.example, audience: p}]", "https://"},
		"no address":        {"issuers: [{issuer: a.example, audience: p}]", "a.example"},
		"HS256":             {one + "  algorithms: [HS256]\n", "HS256"},
		"none":              {one + "  algorithms: [none]\n", "none"},
		"skew":              {one + "  clock_skew: 1h\n", "clock_skew"},
		"role":              {one + "  default_roles: [root]\n", "root"},
		"claim alone":       {one + "  roles_claim: groups\n", "roles_claim"},
		"role of a value":   {one + "  roles_claim: groups\n  roles: {a: [root]}\n", "root"},
		"prefix":            {one + "  prefix: 'a b'\n", "prefix"},
		"twice":             {one + strings.TrimPrefix(one, "issuers:\n") + "  prefix: b\n", "issuers[0] has the same"},
		"prefix twice":      {one + strings.Replace(strings.TrimPrefix(one, "issuers:\n"), "//a", "//b", 1), "prefix"},
		"no authorities":    {one + "  ca: none.pem\n", "none.pem"},
		"empty authorities": {one + "  ca: issuers.yaml\n", "PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := OpenIssuers(issuerFile(t, test.content)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v; want one with %q", err, test.want)
			}
		})
	}
	path := issuerFile(t, one)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIssuers(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may write: %v", err)
	}
}

// A provider with a certificate of its own authority, which the file names.
func TestIssuerWithItsOwnAuthority(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	secure := httptest.NewTLSServer(p.Config.Handler)
	t.Cleanup(secure.Close)
	p.oidc.SetIssuer(secure.URL)
	path := issuerFile(t, fmt.Sprintf("issuers:\n- issuer: %s\n  audience: pawl\n  ca: ca.pem\n", secure.URL))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	token := oidctest.SignIDToken(key, "k1", "RS256", p.claims(map[string]any{"iss": secure.URL}))
	accept(t, openIssuers(t, path, c), token)
	writeIssuers(t, path, fmt.Sprintf("issuers:\n- issuer: %s\n  audience: pawl\n", secure.URL))
	refusedWith(t, openIssuers(t, path, c), token, "cannot be fetched")
}

// Keys and issuers side by side; without a key file there are only the keys of the process itself, and none can be created.
func TestCallers(t *testing.T) {
	c := &clock{t: time.Now()}
	p := newProvider(t, c)
	key, public := rsaKey(t, "k1")
	p.publish(public)
	issuers := issuerFile(t, "issuers:\n"+entry(p, ""))
	token := oidctest.SignIDToken(key, "k1", "RS256", p.claims(nil))
	keys, _ := open(t, keyPath(t))
	apiKey, _ := mustAdd(t, keys, "bob", RoleOperator)
	both, err := Open(keys.path, issuers)
	if err != nil {
		t.Fatal(err)
	}
	if sub := accept(t, both, apiKey).Sub + accept(t, both, token).Sub; sub != "bobann" {
		t.Errorf("the users are %q", sub)
	}
	refusedWith(t, both, "", "pawl login")
	refusedWith(t, both, "pawl_x_y", "API key")
	alone, err := Open("", issuers)
	if err != nil {
		t.Fatal(err)
	}
	accept(t, alone, token)
	accept(t, alone, alone.(*Callers).Ephemeral("executor", []Role{RoleService}))
	refusedWith(t, alone, apiKey, "API key")
	if NewAPI(alone).keys != nil || NewAPI(both).keys == nil {
		t.Error("keys can be managed without a key file, or not with one")
	}
	if a, err := Open("", ""); a != Local() || err != nil {
		t.Errorf("without files: %v, %v", a, err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), ""); err == nil || !strings.Contains(err.Error(), "pawl keys add") {
		t.Errorf("a missing key file: %v", err)
	}
}

// A remembered token costs a hash and a look-up.
func BenchmarkRememberedToken(b *testing.B) {
	c := newClock()
	p := newProvider(b, c)
	key, public := rsaKey(b, "k1")
	p.publish(public)
	path := filepath.Join(b.TempDir(), "issuers.yaml")
	writeIssuers(b, path, "issuers:\n"+entry(p, ""))
	s := openIssuers(b, path, c)
	token := oidctest.SignIDToken(key, "k1", "RS256", p.claims(nil))
	accept(b, s, token)
	for b.Loop() {
		if _, err := s.Authenticate(ctx, token); err != nil {
			b.Fatal(err)
		}
	}
}
