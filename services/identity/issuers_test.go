package identity

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"pawl.dev/services/errs"
	"pawl.dev/services/identity/identitytest"
)

// newProvider starts a provider whose tokens have the time of that clock.
func newProvider(t testing.TB, c *clock) *identitytest.Provider {
	t.Helper()
	p := identitytest.NewProvider(t)
	p.Now = c.now
	return p
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

// Issue 13, shown by 1: forged and foreign tokens are refused with the check that failed.
func TestRefusedTokens(t *testing.T) {
	c := newClock()
	p, other := newProvider(t, c), newProvider(t, c)
	other.Publish(p.Key())
	s := openIssuers(t, identitytest.File(t, "issuers:\n"+p.Entry("")), c)
	want := Principal{Sub: "ann", Roles: []Role{RoleUser}, Issuer: p.URL, Expires: c.now().Add(time.Hour)}
	if diff := cmp.Diff(want, accept(t, s, p.Token(nil)), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Fatalf("principal (-want +got):\n%s", diff)
	}
	wants := map[string]string{
		"no JWT": "neither", "a JWT of five parts": "neither", "payload is no JSON": "neither",
		"wrong issuer": "issuer", "no issuer": "issuer",
		"wrong audience": "audience", "no audience": "audience",
		"alg none": "algorithms", "alg none, signature": "algorithms", "HS256, public key": "algorithms", "HS256, DER": "algorithms", "algorithm not listed": "algorithms",
		"unknown key id": "does not publish", "another's key": "signature", "own key in header": "signature", "changed payload": "signature", "logout token": "kind",
		"expired": "expired", "never expires": "does not expire", "not yet valid": "not valid before", "issued in the future": "not valid before",
		"no user": "sub", "user with spaces": "sub", "user is a number": "",
	}
	forged := p.Forged(other, nil)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(wants)), slices.Sorted(maps.Keys(forged))); diff != "" {
		t.Fatalf("forged tokens (-with an expected message +made):\n%s", diff)
	}
	refusedWith(t, s, "", "neither")
	for name, token := range forged {
		t.Run(name, func(t *testing.T) { refusedWith(t, s, token, wants[name]) })
	}
	accept(t, s, p.Key().Typed("at+jwt", p.Claims(nil)))
	accept(t, s, p.Token(map[string]any{"aud": []string{"mail", "pawl"}}))
}

// Issue 13, shown by 4: the clocks of issuer and service may differ by the skew; a remembered token expires too.
func TestClockSkew(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	for setting, skew := range map[string]time.Duration{"": 30 * time.Second, "  clock_skew: 0s\n": 0, "  clock_skew: 2m\n": 2 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			s := openIssuers(t, identitytest.File(t, "issuers:\n"+p.Entry(setting)), c)
			now := c.now()
			at := func(claim string, d time.Duration) string {
				return p.Token(map[string]any{claim: now.Add(d).Unix()})
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
	first, second := p.Key(), identitytest.ECDSA("k2")
	s := openIssuers(t, identitytest.File(t, "issuers:\n"+p.Entry("")), c)
	old := p.Token(nil)
	accept(t, s, old)
	p.Publish(first, second)
	c.add(refetchAfter)
	accept(t, s, p.Token(nil))
	accept(t, s, old)
	p.Publish(second)
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
	s := openIssuers(t, identitytest.File(t, "issuers:\n"+p.Entry("")), c)
	accept(t, s, p.Token(nil))
	for round := range 3 {
		c.add(refetchAfter)
		var group sync.WaitGroup
		for i := range 20 {
			key := p.Key()
			key.ID = fmt.Sprint("forged", round, i)
			forged := key.Sign(p.Claims(nil))
			group.Go(func() { refusedWith(t, s, forged, "does not publish") })
		}
		group.Wait()
	}
	if n := p.Fetches.Load(); n != 4 {
		t.Errorf("%d requests for keys; want the first and one per round", n)
	}
}

// The last keys serve while the issuer is down, for an hour; then all its tokens are refused until it is back.
func TestIssuerDown(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	s := openIssuers(t, identitytest.File(t, "issuers:\n"+p.Entry("")), c)
	token := func() string {
		return p.Token(map[string]any{"exp": c.now().Add(3 * time.Hour).Unix()})
	}
	remembered := token()
	accept(t, s, remembered)
	p.Down.Store(true)
	c.add(keysUsable - time.Minute)
	accept(t, s, token())
	accept(t, s, remembered)
	c.add(time.Minute)
	refusedWith(t, s, token(), "cannot be fetched")
	refusedWith(t, s, remembered, "cannot be fetched")
	p.Down.Store(false)
	c.add(refetchAfter)
	accept(t, s, remembered)
}

func TestIssuerThatWasNeverReached(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	p.Down.Store(true)
	s := openIssuers(t, identitytest.File(t, "issuers:\n"+p.Entry("")), c)
	token := p.Token(nil)
	refusedWith(t, s, token, "cannot be fetched")
	p.Down.Store(false)
	c.add(refetchAfter)
	accept(t, s, token)
}

// A discovery document of another issuer gives no keys.
func TestDiscoveryOfAnotherIssuer(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"issuer": "https://other.example", "jwks_uri": %q}`, p.URL+"/keys")
	}))
	t.Cleanup(web.Close)
	s := openIssuers(t, identitytest.File(t, fmt.Sprintf("issuers:\n- {issuer: %q, audience: pawl}\n", web.URL)), c)
	refusedWith(t, s, p.Token(map[string]any{"iss": web.URL}), "cannot be fetched")
}

// Issue 13, shown by 4: an issuer that is removed from the file is refused within a second, also for tokens that were accepted.
func TestRevokedIssuer(t *testing.T) {
	c := newClock()
	p, other := newProvider(t, c), newProvider(t, c)
	other.Publish(p.Key())
	path := identitytest.File(t, "issuers:\n"+p.Entry("")+other.Entry("  prefix: 'o:'\n"))
	s := openIssuers(t, path, c)
	token := p.Token(nil)
	others := other.Token(nil)
	accept(t, s, token)
	if sub := accept(t, s, others).Sub; sub != "o:ann" {
		t.Errorf("the user of the other issuer is %q", sub)
	}
	identitytest.Write(t, path, "issuers: [")
	c.add(recheckAfter)
	accept(t, s, token)
	fetches := other.Fetches.Load()
	identitytest.Write(t, path, "issuers:\n"+other.Entry("  prefix: 'o:'\n"))
	c.add(recheckAfter)
	refusedWith(t, s, token, "issuer of the token is not accepted")
	accept(t, s, others)
	if n := other.Fetches.Load(); n != fetches {
		t.Errorf("the change caused %d requests to an issuer that stayed", n-fetches)
	}
	if urls := s.URLs(); len(urls) != 1 || urls[0] != other.URL {
		t.Errorf("the issuers are %q", urls)
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
	s := openIssuers(t, identitytest.File(t, "issuers:\n"+other.Entry("  prefix: 'x:'\n")+p.Entry(`  sub_claim: email
  roles_claim: realm_access.roles
  default_roles: []
  roles:
    staff: [user]
    admins: [user, operator]
    "Two Words": [service]
`)), c)
	signed := func(email string, groups any) string {
		return p.Token(map[string]any{"email": email, "realm_access": map[string]any{"roles": groups}})
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

// The claim scope is a list with spaces (RFC 8693, section 4.2).
func TestRolesOfScopes(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	s := openIssuers(t, identitytest.File(t, "issuers:\n"+p.Entry("  roles_claim: scope\n  default_roles: []\n  roles: {'pawl:use': [user], 'pawl:run': [operator]}\n")), c)
	if got := accept(t, s, p.Token(map[string]any{"scope": "openid pawl:use pawl:run"})); !cmp.Equal(got.Roles, []Role{RoleUser, RoleOperator}) {
		t.Errorf("roles %v", got.Roles)
	}
	refusedWith(t, s, p.Token(map[string]any{"scope": "openid pawl:user"}), "no role")
}

// A key that its issuer publishes for encryption proves no signature.
func TestKeysForEncryption(t *testing.T) {
	c := newClock()
	p := newProvider(t, c)
	public := jose.JSONWebKey{Key: p.Key().Public(), KeyID: p.Key().ID, Algorithm: p.Key().Algorithm}
	for use, refused := range map[string]bool{"": false, "sig": false, "enc": true} {
		public.Use = use
		raw, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := (&issuer{issuerSettings: issuerSettings{Algorithms: []string{"RS256", "ES256"}}}).parseKeys(raw)
		if (err != nil) != refused || !refused && len(keys) != 1 {
			t.Errorf("use %q: %d keys, error %v", use, len(keys), err)
		}
	}
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
			if _, err := OpenIssuers(identitytest.File(t, test.content)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v; want one with %q", err, test.want)
			}
		})
	}
	path := identitytest.File(t, one)
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
	secure := httptest.NewTLSServer(p.Config.Handler)
	t.Cleanup(secure.Close)
	p.SetIssuer(secure.URL)
	path := identitytest.File(t, fmt.Sprintf("issuers:\n- issuer: %s\n  audience: pawl\n  ca: ca.pem\n", secure.URL))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	token := p.Token(map[string]any{"iss": secure.URL})
	accept(t, openIssuers(t, path, c), token)
	identitytest.Write(t, path, fmt.Sprintf("issuers:\n- issuer: %s\n  audience: pawl\n", secure.URL))
	refusedWith(t, openIssuers(t, path, c), token, "cannot be fetched")
}

// Keys and issuers side by side; without a key file there are only the keys of the process itself, and none can be created.
func TestCallers(t *testing.T) {
	c := &clock{t: time.Now()}
	p := newProvider(t, c)
	issuers := identitytest.File(t, "issuers:\n"+p.Entry(""))
	token := p.Token(nil)
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
	if urls := both.(*Callers).IssuerURLs(); len(urls) != 1 || urls[0] != p.URL {
		t.Errorf("the issuers are %q", urls)
	}
	if urls := (&Callers{KeyFile: keys}).IssuerURLs(); urls != nil {
		t.Errorf("the issuers of keys alone are %q", urls)
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
	s := openIssuers(b, identitytest.File(b, "issuers:\n"+p.Entry("")), c)
	token := p.Token(nil)
	accept(b, s, token)
	for b.Loop() {
		if _, err := s.Authenticate(ctx, token); err != nil {
			b.Fatal(err)
		}
	}
}
