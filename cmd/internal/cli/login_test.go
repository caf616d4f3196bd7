package cli_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"pawl.dev/cmd/suite"
)

// deviceIssuer is a local OpenID Connect provider with logins by device code. A user confirms after the first poll.
type deviceIssuer struct {
	*httptest.Server
	keys oidctest.Server
	key  *rsa.PrivateKey

	mu      sync.Mutex // guards the following
	polls   int
	refresh string // the refresh token that is valid
	renewed int
	refuse  bool // to renew
}

func newDeviceIssuer(t *testing.T) *deviceIssuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	d := &deviceIssuer{key: key}
	d.keys.PublicKeys = []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k1", Algorithm: "RS256"}}
	d.Server = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(d.Close)
	d.keys.SetIssuer(d.URL)
	return d
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
		d.refresh = rand.Text()
		id := oidctest.SignIDToken(d.key, "k1", "RS256", fmt.Sprintf(`{"iss":%q,"aud":"pawl-cli","sub":"ann","exp":%d}`, d.URL, time.Now().Add(life).Unix()))
		answer(200, map[string]any{"access_token": "opaque", "token_type": "Bearer", "expires_in": 3600, "id_token": id, "refresh_token": d.refresh})
	}
	switch {
	case r.URL.Path == "/.well-known/openid-configuration":
		answer(200, map[string]any{"issuer": d.URL, "jwks_uri": d.URL + "/keys", "token_endpoint": d.URL + "/token", "device_authorization_endpoint": d.URL + "/device"})
	case r.URL.Path == "/device" && r.FormValue("client_id") == "pawl-cli":
		answer(200, map[string]any{"device_code": "d1", "user_code": "WXYZ", "verification_uri": d.URL + "/go", "interval": 1, "expires_in": 60})
	case r.URL.Path == "/token" && r.FormValue("device_code") == "d1":
		if d.polls++; d.polls == 1 {
			answer(400, map[string]string{"error": "authorization_pending"})
			return
		}
		tokens(10 * time.Second) // so short that the first use renews it
	case r.URL.Path == "/token" && r.FormValue("grant_type") == "refresh_token":
		if d.refuse || r.FormValue("refresh_token") != d.refresh {
			answer(400, map[string]string{"error": "invalid_grant"})
			return
		}
		d.renewed++
		tokens(time.Hour)
	case r.URL.Path == "/keys":
		d.keys.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// A login by device code identifies all later commands to that server, is renewed in time, and is sent to no other server.
func TestLogin(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("HOME", config)
	w := newWorld(t)
	issuer := newDeviceIssuer(t)
	file := filepath.Join(t.TempDir(), "issuers.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("issuers: [{issuer: %q, audience: pawl-cli}]", issuer.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	server, other := serveIssuers(t, file), serveIssuers(t, file)
	w.pawl("whoami", "--server", server).expect(t, 1, "", "pawl login")
	w.pawl("login", "--server", server, "--issuer", issuer.URL, "--client-id", "else").expect(t, 1, "", "--client-id")
	w.pawl("login", "--server", server, "--issuer", issuer.URL, "--client-id", "pawl-cli").expect(t, 0, "logged in at "+issuer.URL, "WXYZ")
	for range 2 {
		w.pawl("whoami", "--server", server).expect(t, 0, "ann", "")
	}
	w.pawl("whoami", "--server", server, "--json").expect(t, 0, `"issuer":`, "")
	w.pawl("tasks", "--server", server).expect(t, 0, "", "")
	issuer.mu.Lock()
	renewed := issuer.renewed
	issuer.mu.Unlock()
	if renewed != 1 {
		t.Errorf("the token was renewed %d times, want once", renewed)
	}
	stored := filepath.Join(config, "pawl", "logins.json")
	if info, err := os.Stat(stored); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of logins: %v, %v", info, err)
	}
	w.pawl("whoami", "--server", other).expect(t, 1, "", "no credential was sent")
	w.pawl("whoami", "--server", server, "--key", "pawl_x_y").expect(t, 1, "", "API key")

	raw, err := os.ReadFile(stored)
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
	if err := os.WriteFile(stored, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	issuer.mu.Lock()
	issuer.refuse = true
	issuer.mu.Unlock()
	w.pawl("whoami", "--server", server).expect(t, 1, "", "log in again with pawl login")
	w.pawl("logout", "--server", server).expect(t, 0, "logged out", "")
	w.pawl("logout", "--server", server).expect(t, 0, "no login", "")
	if raw, err := os.ReadFile(stored); err != nil || strings.Contains(string(raw), "token") {
		t.Errorf("after the logout: %s, %v", raw, err)
	}
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
