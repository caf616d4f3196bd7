package cli_test

import (
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl.dev/cmd/suite"
	"pawl.dev/services/identity/identitytest"
)

// deviceIssuer is a local OpenID Connect provider with logins by device code, whose refresh tokens are good for one use. A user confirms after the
// first poll.
type deviceIssuer struct {
	*identitytest.Provider

	mu        sync.Mutex // guards the following
	issuer    string     // its address
	secret    string     // of its client
	polls     int
	life      time.Duration   // of the tokens of a login; renewed ones live an hour
	refresh   map[string]bool // the refresh tokens that are valid
	renewed   int
	refuse    bool // to renew
	noCodes   bool // it has no device codes
	noRevoke  bool // it revokes no tokens
	audiences []string
}

func newDeviceIssuer(t *testing.T) *deviceIssuer {
	t.Helper()
	d := &deviceIssuer{Provider: identitytest.NewProvider(t), refresh: map[string]bool{}, life: 10 * time.Second} // so short that the first use renews it
	d.issuer = d.URL
	for _, path := range []string{"/.well-known/openid-configuration", "/device", "/token", "/revoke"} {
		d.HandleFunc(path, d.serve)
	}
	return d
}

// set changes the issuer.
func (d *deviceIssuer) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *deviceIssuer) serve(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := func(code int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v)
	}
	tokens := func(life time.Duration) {
		refresh := rand.Text()
		d.refresh[refresh] = true
		token := func(audience string) string {
			return d.Token(map[string]any{"iss": d.issuer, "aud": audience, "exp": time.Now().Add(life).Unix()})
		}
		answer(200, map[string]any{
			"access_token": token("pawl-api"), "token_type": "Bearer", "expires_in": 3600, "id_token": token("pawl-cli"), "refresh_token": refresh,
		})
	}
	if r.URL.Path == "/.well-known/openid-configuration" {
		doc := map[string]any{"issuer": d.issuer, "jwks_uri": d.issuer + "/keys", "token_endpoint": d.issuer + "/token"}
		if !d.noCodes {
			doc["device_authorization_endpoint"] = d.issuer + "/device"
		}
		if !d.noRevoke {
			doc["revocation_endpoint"] = d.issuer + "/revoke"
		}
		answer(200, doc)
		return
	}
	if r.FormValue("client_id") != "pawl-cli" || r.FormValue("client_secret") != d.secret {
		answer(401, map[string]string{"error": "invalid_client"})
		return
	}
	switch {
	case r.URL.Path == "/device":
		d.audiences = append(d.audiences, r.FormValue("audience"))
		answer(200, map[string]any{"device_code": "d1", "user_code": "WXYZ", "verification_uri": d.issuer + "/go", "interval": 1, "expires_in": 60})
	case r.URL.Path == "/token" && r.FormValue("device_code") == "d1":
		if d.polls++; d.polls == 1 {
			answer(400, map[string]string{"error": "authorization_pending"})
			return
		}
		tokens(d.life)
	case r.URL.Path == "/token" && r.FormValue("grant_type") == "refresh_token":
		if d.refuse || !d.refresh[r.FormValue("refresh_token")] {
			answer(400, map[string]string{"error": "invalid_grant"})
			return
		}
		delete(d.refresh, r.FormValue("refresh_token"))
		d.renewed++
		tokens(time.Hour)
	case r.URL.Path == "/revoke":
		delete(d.refresh, r.FormValue("token"))
	default:
		http.NotFound(w, r)
	}
}

// issuerWorld is a world with a configuration folder of its own, an issuer, and the files of servers that accept it.
type issuerWorld struct {
	*world
	issuer *deviceIssuer
	stored string // the file of logins
}

func newIssuerWorld(t *testing.T) *issuerWorld {
	t.Helper()
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("HOME", config)
	t.Setenv("PAWL_CLIENT_SECRET", "")
	return &issuerWorld{newWorld(t), newDeviceIssuer(t), filepath.Join(config, "pawl", "logins.json")}
}

// server runs a server that accepts tokens of the issuer for an audience, and returns its address.
func (w *issuerWorld) server(t *testing.T, audience, more string) string {
	t.Helper()
	return serveIssuers(t, identitytest.File(t, fmt.Sprintf("issuers: [{issuer: %q, audience: %s%s}]", w.issuer.issuer, audience, more)))
}

// login logs in to a server.
func (w *issuerWorld) login(server string, more ...string) result {
	return w.pawl(append([]string{"login", "--server", server, "--issuer", w.issuer.issuer, "--client-id", "pawl-cli"}, more...)...)
}

// expire makes the login for a server one that has expired.
func (w *issuerWorld) expire(t *testing.T, server string) {
	t.Helper()
	raw, err := os.ReadFile(w.stored)
	if err != nil {
		t.Fatal(err)
	}
	var logins map[string]map[string]any
	if err := json.Unmarshal(raw, &logins); err != nil {
		t.Fatal(err)
	}
	logins[server]["expires"] = time.Now()
	if raw, err = json.Marshal(logins); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.stored, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A login by device code identifies all later commands to that server, is renewed in time, and is sent to no other server.
func TestLogin(t *testing.T) {
	w := newIssuerWorld(t)
	issuer := w.issuer
	server, other := w.server(t, "pawl-cli", ""), w.server(t, "pawl-cli", "")
	w.pawl("whoami", "--server", server).expect(t, 1, "", "pawl login")
	w.pawl("login", "--server", server).expect(t, 64, "", "--issuer")
	w.pawl("login", "--server", server, "--issuer", issuer.URL, "--client-id", "else").expect(t, 1, "", "--client-id")
	w.login(server).expect(t, 0, "logged in at "+issuer.URL, "WXYZ")
	for range 2 {
		w.pawl("whoami", "--server", server).expect(t, 0, "ann", "")
	}
	w.pawl("whoami", "--server", server, "--json").expect(t, 0, `"issuer":`, "")
	w.pawl("tasks", "--server", server).expect(t, 0, "", "")
	issuer.set(func() {
		if issuer.renewed != 1 {
			t.Errorf("the token was renewed %d times, want once", issuer.renewed)
		}
	})
	if info, err := os.Stat(w.stored); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of logins: %v, %v", info, err)
	}
	w.pawl("whoami", "--server", other).expect(t, 1, "", "no credential was sent")
	w.pawl("whoami", "--server", server, "--key", "pawl_x_y").expect(t, 1, "", "API key")

	w.expire(t, server)
	issuer.set(func() { issuer.refuse = true })
	w.pawl("whoami", "--server", server).expect(t, 1, "", "next: log in again with pawl login")
	w.pawl("logout", "--server", server).expect(t, 0, "has revoked", "")
	w.pawl("logout", "--server", server).expect(t, 0, "no login", "")
	if raw, err := os.ReadFile(w.stored); err != nil || strings.Contains(string(raw), "token") {
		t.Errorf("after the logout: %s, %v", raw, err)
	}
	issuer.set(func() {
		if len(issuer.refresh) > 0 {
			t.Errorf("after the logout, %d refresh tokens are valid", len(issuer.refresh))
		}
	})
}

// Commands that renew the logins of two servers at once lose no refresh token, although the issuer accepts each only once.
func TestLoginsRenewedAtOnce(t *testing.T) {
	w := newIssuerWorld(t)
	servers := []string{w.server(t, "pawl-cli", ""), w.server(t, "pawl-cli", "")}
	for _, server := range servers {
		w.login(server).expect(t, 0, "logged in", "")
	}
	for round := 1; round <= 2; round++ {
		var group sync.WaitGroup
		for i := range 12 {
			group.Go(func() { w.pawl("whoami", "--server", servers[i%2]).expect(t, 0, "ann", "") })
		}
		group.Wait()
		w.issuer.set(func() {
			if w.issuer.renewed != 2*round || len(w.issuer.refresh) != 2 {
				t.Errorf("after round %d the tokens were renewed %d times, and %d can be renewed", round, w.issuer.renewed, len(w.issuer.refresh))
			}
		})
		for _, server := range servers {
			w.expire(t, server)
		}
	}
}

// While the issuer is down, the last token is sent until it expires; then the command says to try later, and the login stays.
func TestLoginWhileIssuerIsDown(t *testing.T) {
	w := newIssuerWorld(t)
	server := w.server(t, "pawl-cli", "")
	w.issuer.set(func() { w.issuer.life = 25 * time.Second })
	w.login(server).expect(t, 0, "logged in", "")
	w.pawl("whoami", "--server", server).expect(t, 0, "ann", "") // the server knows the issuer's keys now
	w.issuer.set(func() { w.issuer.life = 25 * time.Second })
	w.login(server).expect(t, 0, "logged in", "")
	w.issuer.Down.Store(true)
	w.pawl("whoami", "--server", server).expect(t, 0, "ann", "")
	w.expire(t, server)
	w.pawl("whoami", "--server", server).expect(t, 1, "", "next: try again later")
	w.login(server).expect(t, 1, "", "cannot be used")
	w.issuer.Down.Store(false)
	w.pawl("whoami", "--server", server).expect(t, 0, "ann", "")
	w.issuer.Down.Store(true)
	w.pawl("logout", "--server", server).expect(t, 1, "", "could not be revoked")
	w.pawl("logout", "--server", server).expect(t, 0, "no login", "")
}

// A client with a secret has it from a file or the environment, and needs it for renewals too.
func TestLoginWithClientSecret(t *testing.T) {
	w := newIssuerWorld(t)
	server := w.server(t, "pawl-cli", "")
	w.issuer.set(func() { w.issuer.secret, w.issuer.noRevoke = "s3cret", true })
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.login(server).expect(t, 1, "", "its secret")
	w.login(server, "--client-secret-file", secret+"x").expect(t, 1, "", "secret")
	w.login(server, "--client-secret-file", secret).expect(t, 0, "logged in", "")
	w.pawl("whoami", "--server", server).expect(t, 0, "ann", "")
	w.pawl("logout", "--server", server).expect(t, 0, "the issuer revokes no tokens", "")
	t.Setenv("PAWL_CLIENT_SECRET", "s3cret")
	w.login(server).expect(t, 0, "logged in", "")
	w.pawl("whoami", "--server", server).expect(t, 0, "ann", "")
	w.issuer.set(func() {
		if w.issuer.renewed != 2 {
			t.Errorf("the tokens were renewed %d times, want twice", w.issuer.renewed)
		}
	})
	if raw, err := os.ReadFile(w.stored); err != nil || strings.Contains(string(raw), "s3cret") {
		t.Errorf("the file of logins: %s, %v", raw, err)
	}
}

// The token for an audience is sent, also after a renewal.
func TestLoginForAudience(t *testing.T) {
	w := newIssuerWorld(t)
	server := w.server(t, "pawl-api", "")
	w.login(server).expect(t, 0, "logged in", "")
	w.pawl("whoami", "--server", server).expect(t, 1, "", "another audience")
	w.login(server, "--audience", "elsewhere").expect(t, 1, "", `no token for the audience "elsewhere"`)
	w.login(server, "--audience", "pawl-api").expect(t, 0, "logged in", "")
	w.pawl("whoami", "--server", server).expect(t, 0, "ann", "")
	w.issuer.set(func() {
		if got := strings.Join(w.issuer.audiences, ","); got != ",elsewhere,pawl-api" || w.issuer.renewed != 2 {
			t.Errorf("the issuer was asked for the audiences %q and renewed %d times", got, w.issuer.renewed)
		}
	})
}

// An issuer with an authority of its own needs --ca, and no login goes to an issuer without TLS elsewhere.
func TestLoginOverTLS(t *testing.T) {
	w := newIssuerWorld(t)
	secure := httptest.NewTLSServer(w.issuer.Provider)
	t.Cleanup(secure.Close)
	w.issuer.set(func() { w.issuer.issuer = secure.URL })
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	server := w.server(t, "pawl-cli", ", ca: "+ca)
	w.login(server).expect(t, 1, "", "certificate")
	w.login(server, "--ca", ca+"x").expect(t, 1, "", "ca.pemx")
	w.login(server, "--ca", ca).expect(t, 0, "logged in", "")
	w.pawl("whoami", "--server", server).expect(t, 0, "ann", "") // renewed without --ca
	w.pawl("login", "--server", server, "--issuer", "http://login.example", "--client-id", "pawl-cli").expect(t, 1, "", "https://")
}

// For an issuer without device codes, the user gives a token.
func TestLoginWithToken(t *testing.T) {
	w := newIssuerWorld(t)
	server := w.server(t, "pawl", "")
	w.issuer.set(func() { w.issuer.noCodes = true })
	w.login(server).expect(t, 1, "", "--token-stdin")
	w.typed = strings.NewReader("pawl_x_y\n")
	w.pawl("login", "--server", server, "--token-stdin").expect(t, 1, "", "PAWL_KEY")
	w.typed = strings.NewReader(w.issuer.Token(nil) + "\n")
	w.pawl("login", "--server", server, "--token-stdin").expect(t, 0, "logged in at "+w.issuer.URL, "")
	w.pawl("whoami", "--server", server).expect(t, 0, "ann", "")
	w.pawl("logout", "--server", server).expect(t, 0, "logged out", "")
}

// serveIssuers runs a server that accepts the issuers of a file, until the test ends, and returns its address.
func serveIssuers(t *testing.T, file string) string {
	t.Helper()
	s, err := suite.New(t.Context(), suite.Config{DataDir: t.TempDir(), GRPCAddr: "127.0.0.1:0", IssuersFile: file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }() // the context ends before the cleanup
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.GRPCAddr()
}
