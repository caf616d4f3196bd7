package oauth

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/seal"
)

// box returns a Box whose key is a repeated byte.
func box(t *testing.T, key byte) *seal.Box {
	t.Helper()
	b, err := seal.NewBox(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Logins outlive the process, and the file shows nothing of them.
func TestLoginsAreStoredEncrypted(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	dir := t.TempDir()
	open := func() {
		st, err := store.Open(dir, Buckets()...)
		if err != nil {
			t.Fatal(err)
		}
		r.store = st
		r.logins = r.openLogins(Config{})
	}
	open()
	r.login("ann")
	r.works("ann")
	login, _ := r.logins.vault.token(refFor(r.server, "ann"))
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(dir, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{"access": login.Access, "refresh": login.Refresh, "client": login.Client.Secret} {
		if secret == "" || bytes.Contains(file, []byte(secret)) {
			t.Errorf("the file shows the %s token or secret, or there is none (%d bytes)", name, len(secret))
		}
	}
	open()
	r.works("ann")
	if n := r.registrations(); n != 1 {
		t.Errorf("%d registrations", n)
	}
	r.login("bob") // with the client that was registered before
	if n := r.registrations(); n != 1 {
		t.Errorf("%d registrations", n)
	}
	for _, secret := range []string{login.Access, login.Refresh, login.Client.Secret} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("the log shows a secret:\n%s", r.log)
		}
	}
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
}

// Logins that were stored with another key cannot be read. That is logged, and logging in again replaces them.
func TestAnotherKey(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	r.logins = r.openLogins(Config{Box: box(t, 2)})
	if !strings.Contains(r.log.String(), "cannot be read with this key") {
		t.Errorf("the failure is not reported:\n%s", r.log)
	}
	_, err := r.request("ann", "tools/list")
	wantKind(t, err, mcp.LoginRequired, "restore the key, or run `pawl mcp login web`")
	if r.logins.State(r.server, "ann") != Required {
		t.Error("the state is not Required")
	}
	r.login("ann")
	r.works("ann")
	r.logins = r.openLogins(Config{Box: box(t, 1)})
	if err := r.logins.Forget(t.Context(), r.server, "ann", false); err != nil {
		t.Error(err)
	}
	n := 0
	if err := r.store.Load(bucketTokens, func(string, []byte) error { n++; return nil }); err != nil || n != 0 {
		t.Errorf("%d logins are left, %v", n, err)
	}
	if r.logins.State(r.server, "ann") != Unasked {
		t.Error("the state is not Unasked")
	}
}

// A record can be read only under its own key: write access to the store does not give one user another's login.
func TestRecordsCannotBeMoved(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	ann, bob := refFor(r.server, "ann"), refFor(r.server, "bob")
	value, err := r.store.Get(bucketTokens, ann.key(r.auth.URL))
	if err != nil || value == nil {
		t.Fatal(value, err)
	}
	for name, bad := range map[string][]byte{"moved": value, "cut": value[:5], "empty": {}, "changed": append(bytes.Clone(value[:len(value)-1]), value[len(value)-1]^1)} {
		if err := r.store.Apply(store.Change{Bucket: bucketTokens, Key: bob.key(r.auth.URL), Value: bad}); err != nil {
			t.Fatal(err)
		}
		r.logins = r.openLogins(Config{})
		if token, sealed := r.logins.vault.token(bob); token != nil || !sealed {
			t.Errorf("%s: %v, %v", name, token, sealed)
		}
	}
	for value, want := range map[string]string{string(rune(recordVersion + 1)): "newer version", "\x00": "no format version", `{"issuer":"x"}`: "no format version"} {
		if err := r.store.Apply(store.Change{Bucket: bucketTokens, Key: bob.key(r.auth.URL), Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := openVault(r.store, box(t, 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error = %v, want one with %q", value, err, want)
		}
	}
}

// A login belongs to one address: a server that moves, or is registered again, starts without.
func TestLoginsBelongToTheServer(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	moved := r.server.Clone()
	moved.HTTP.URL = r.web.Base + "/other"
	other := r.server.Clone()
	other.UID = "another"
	for name, s := range map[string]*registry.Server{"moved": moved.Seal(), "registered again": other.Seal()} {
		if token, err := r.logins.For(s, "ann").Token(t.Context()); token != "" || err != nil {
			t.Errorf("%s: %q, %v", name, token, err)
		}
	}
	if err := r.logins.ForgetServer(moved); err != nil {
		t.Error(err)
	}
	r.works("ann")
	if _, err := r.start("bob"); err != nil {
		t.Fatal(err)
	}
	if err := r.logins.ForgetServer(r.server); err != nil {
		t.Error(err)
	}
	if r.logins.State(r.server, "ann") != Unasked || len(r.logins.open) != 0 {
		t.Error("the server's logins are still there")
	}
}

func TestKeptLoginsAreBounded(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	v := r.logins.vault
	for i := range maxTokens + 3 {
		login := &token{Issuer: "https://auth.example", Access: "x", Obtained: r.now().Add(0)}
		login.Obtained = login.Obtained.AddDate(0, 0, i)
		if _, err := v.put(ref{"ann", fmt.Sprint(i)}, login, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(v.tokens); n != maxTokens {
		t.Errorf("%d logins", n)
	}
	if login, _ := v.token(ref{"ann", "0"}); login != nil {
		t.Error("the oldest is still there")
	}
	for i := range maxRegistrations + 3 {
		if err := v.putRegistration(fmt.Sprint(i), registration{Time: r.now().AddDate(0, 0, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, kept := v.registration("0"); kept || len(v.clients) != maxRegistrations {
		t.Errorf("%d clients", len(v.clients))
	}
	for i := range maxNeeds + 3 {
		r.logins.recordNeed(ref{"ann", fmt.Sprint(i)}, challenge{}, false)
	}
	if n := len(r.logins.needs); n != maxNeeds {
		t.Errorf("%d refusals are remembered", n)
	}
}

func TestHide(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	source := r.logins.For(r.server, "ann")
	token, err := source.Token(t.Context())
	if err != nil || token == "" {
		t.Fatal(token, err)
	}
	if got := source.Hide("you sent " + token + "!"); got != "you sent ***!" {
		t.Errorf("%q", got)
	}
}
