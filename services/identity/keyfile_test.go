package identity

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

var ctx = context.Background()

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func open(t *testing.T, path string) (*KeyFile, *clock) {
	t.Helper()
	k, err := OpenKeyFile(path)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	c := &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	k.now, k.checked = c.now, c.now()
	return k, c
}

func readKeys(path string) ([]Key, fs.FileInfo, error) {
	return (&KeyFile{watchedFile: watchedFile{path: path, kind: "key"}}).readKeys()
}

func keyPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "conf", "keys.yaml")
}

func mustAdd(t *testing.T, k *KeyFile, sub string, roles ...Role) (string, Key) {
	t.Helper()
	token, key, err := k.Add(Key{Sub: sub, Roles: roles, Note: "for " + sub})
	if err != nil {
		t.Fatalf("add: %v", err)
	}
	return token, key
}

func wantUnauthenticated(t *testing.T, a Authenticator, token string) {
	t.Helper()
	p, err := a.Authenticate(ctx, token)
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED {
		t.Errorf("Authenticate(%q) = %v, %v; want UNAUTHENTICATED", token, p, err)
	}
}

func wantSub(t *testing.T, a Authenticator, token, sub string) {
	t.Helper()
	p, err := a.Authenticate(ctx, token)
	if err != nil || p.Sub != sub {
		t.Errorf("Authenticate = %v, %v; want %s", p, err, sub)
	}
}

func TestKeyFileLifeOfAKey(t *testing.T) {
	path := keyPath(t)
	k, _ := open(t, path)
	wantUnauthenticated(t, k, "")
	token, key := mustAdd(t, k, "alice", RoleUser, RoleOperator)
	wantKey := Key{ID: key.ID, Sub: "alice", Roles: []Role{RoleUser, RoleOperator}, Hash: key.Hash, Note: "for alice",
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if diff := cmp.Diff(wantKey, key); diff != "" {
		t.Errorf("key (-want +got):\n%s", diff)
	}
	id, secret, ok := splitToken(token)
	if !ok || id != key.ID || len(secret) < 52 { // 256 bits at 5 a character
		t.Errorf("token = %q", token)
	}
	p, err := k.Authenticate(ctx, token)
	want := Principal{Sub: "alice", Roles: []Role{RoleUser, RoleOperator}, KeyID: key.ID}
	if diff := cmp.Diff(want, p); err != nil || diff != "" {
		t.Errorf("Authenticate: %v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{token + "x", token[:len(token)-1], "pawl_" + id + "_", "pawl_" + id, "pawl__" + secret,
		strings.TrimPrefix(token, "pawl_"), strings.ToUpper(token), "pawl_" + id + "_" + strings.Repeat("a", 52)} {
		wantUnauthenticated(t, k, bad)
	}
	raw, err := os.ReadFile(path)
	if err != nil || bytes.Contains(raw, []byte(secret)) {
		t.Errorf("the file holds the secret, or cannot be read: %v", err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v", info.Mode())
	}
	// Another process sees the same.
	other, _ := open(t, path)
	wantSub(t, other, token, "alice")
	if diff := cmp.Diff([]Key{wantKey}, other.List()); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	if err := k.Remove(key.ID); err != nil {
		t.Fatalf("remove: %v", err)
	}
	wantUnauthenticated(t, k, token)
	if err := k.Remove(key.ID); err == nil || !strings.Contains(err.Error(), key.ID) {
		t.Errorf("removing twice: %v", err)
	}
}

func TestKeyFileFollowsTheFile(t *testing.T) {
	path := keyPath(t)
	server, clock := open(t, path)
	admin, _ := open(t, path)

	token, key := mustAdd(t, admin, "alice", RoleUser)
	wantSub(t, server, token, "alice") // an unknown id makes it look at once

	if err := admin.Remove(key.ID); err != nil {
		t.Fatal(err)
	}
	wantSub(t, server, token, "alice") // within the second it is believed
	clock.add(recheckAfter)
	wantUnauthenticated(t, server, token)
}

// A list has no key that another process has removed, without a delay.
func TestListIsCurrent(t *testing.T) {
	path := keyPath(t)
	server, _ := open(t, path)
	admin, _ := open(t, path)
	_, key := mustAdd(t, admin, "alice", RoleUser)
	if listed := server.List(); len(listed) != 1 || listed[0].ID != key.ID {
		t.Errorf("added: %v", listed)
	}
	if err := admin.Remove(key.ID); err != nil {
		t.Fatal(err)
	}
	if listed := server.List(); len(listed) != 0 {
		t.Errorf("removed: %v", listed)
	}
}

func TestKeyFileKeepsTheLastGoodVersion(t *testing.T) {
	var logged bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	t.Cleanup(func() { slog.SetDefault(old) })

	path := keyPath(t)
	k, clock := open(t, path)
	token, _ := mustAdd(t, k, "alice", RoleUser)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "version: 1\nkeys: [{id: a, subb: x}]\n")
	for range 3 {
		clock.add(2 * recheckAfter)
		wantSub(t, k, token, "alice")
	}
	if n := strings.Count(logged.String(), "cannot be used"); n != 1 || !strings.Contains(logged.String(), "subb") {
		t.Errorf("a broken version is logged once with its reason; got:\n%s", &logged)
	}
	if _, _, err := k.Add(Key{Sub: "bob", Roles: []Role{RoleUser}}); err == nil {
		t.Error("a broken file was overwritten")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	clock.add(2 * recheckAfter)
	wantUnauthenticated(t, k, token) // a deleted file closes everything
	write(t, path, string(good))
	token2, _ := mustAdd(t, k, "bob", RoleUser)
	clock.add(2 * recheckAfter)
	wantSub(t, k, token, "alice")
	wantSub(t, k, token2, "bob")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEphemeralKeysAreNotStored(t *testing.T) {
	path := keyPath(t)
	k, _ := open(t, path)
	token := k.Ephemeral("executor", []Role{RoleService})
	p, err := k.Authenticate(ctx, token)
	if err != nil || p.Sub != "executor" || !p.Has(RoleService) || p.IsOperator() {
		t.Errorf("Authenticate = %v, %v", p, err)
	}
	if len(k.List()) != 0 {
		t.Errorf("List = %v", k.List())
	}
	mustAdd(t, k, "alice", RoleUser)
	wantSub(t, k, token, "executor")
	other, _ := open(t, path)
	wantUnauthenticated(t, other, token)
}

func TestAddRefusesWhatCannotBe(t *testing.T) {
	k, _ := open(t, keyPath(t))
	for name, c := range map[string]struct {
		sub   string
		roles []Role
	}{
		"no sub":       {"", []Role{RoleUser}},
		"space":        {"a b", []Role{RoleUser}},
		"control":      {"a\x01", []Role{RoleUser}},
		"too long":     {strings.Repeat("x", 201), []Role{RoleUser}},
		"no role":      {"alice", nil},
		"unknown role": {"alice", []Role{"admin"}},
	} {
		if _, _, err := k.Add(Key{Sub: c.sub, Roles: c.roles}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestOpenSaysWhereTheFileIsWrong(t *testing.T) {
	const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	key := func(id, sub, roles, sha string) string {
		return fmt.Sprintf("  - {id: %s, sub: %s, roles: %s, sha256: %s, created: 2026-01-02T03:04:05Z}\n", id, sub, roles, sha)
	}
	head := "version: 1\nkeys:\n"
	cases := map[string]struct {
		content string
		want    []string
	}{
		"empty":                  {"", []string{"empty", "version: 1"}},
		"no version":             {"keys: []\n", []string{"version"}},
		"newer version":          {"version: 2\n", []string{"version is 2", "version 1"}},
		"not YAML":               {"version: [\n", []string{"line"}},
		"unknown field":          {"version: 1\nkey: []\n", []string{"line 2", "key"}},
		"unknown field of a key": {head + "  - id: a\n    user: x\n", []string{"line 4", "user"}},
		"bad id":                 {head + key("a_b", "x", "[user]", hash), []string{"line 3", "field id", "a_b"}},
		"no sub":                 {head + key("a", `""`, "[user]", hash), []string{"line 3", "field sub"}},
		"no roles":               {head + key("a", "x", "[]", hash), []string{"line 3", "field roles"}},
		"bad role":               {head + key("a", "x", "[root]", hash), []string{"field roles", "root"}},
		"bad hash":               {head + key("a", "x", "[user]", "00ff"), []string{"field sha256", "64 hex"}},
		"same id": {head + key("a", "x", "[user]", hash) + "\n" + key("a", "y", "[user]", hash),
			[]string{"line 5", "keys[1]", "field id", "keys[0]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.yaml")
			write(t, path, c.content)
			_, err := OpenKeyFile(path)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range append(c.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

func TestOpenRefusesAFileThatOthersMayWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write(t, path, "version: 1\n")
	if err := os.Chmod(path, 0o622); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeyFile(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("err = %v", err)
	}
	if _, err := OpenKeyFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder: %v", err)
	}
}

func TestConcurrentAddsLoseNothing(t *testing.T) {
	path := keyPath(t)
	const writers, each = 4, 5
	var wg sync.WaitGroup
	for w := range writers {
		k, _ := open(t, path) // as if in processes of their own
		wg.Go(func() {
			for range each {
				if _, _, err := k.Add(Key{Sub: fmt.Sprintf("user%d", w), Roles: []Role{RoleUser}}); err != nil {
					t.Errorf("add: %v", err)
				}
			}
		})
	}
	wg.Wait()
	k, _ := open(t, path)
	if n := len(k.List()); n != writers*each {
		t.Errorf("%d keys, want %d", n, writers*each)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

func TestCheckSub(t *testing.T) {
	for _, good := range []string{"a", "auth0|123", "alice@example.com", "李雷", strings.Repeat("字", 200)} {
		if err := CheckSub(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", " ", "a b", "a\u00a0b", "a\nb", "a\u200bb", "\xff", strings.Repeat("字", 201)} {
		if CheckSub(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("version: 1\nkeys: []\n"))
	f.Add([]byte("version: 1\nkeys:\n  - {id: a, sub: x, roles: [user], sha256: ff, created: 2026-01-02T03:04:05Z}\n"))
	f.Add([]byte("keys: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := parseKeys(raw)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "keys.yaml")
		if err := writeKeys(path, keys); err != nil {
			t.Fatalf("write what was read: %v", err)
		}
		again, _, err := readKeys(path)
		if diff := cmp.Diff(keys, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("round trip: %v (-want +got):\n%s", err, diff)
		}
	})
}

// A note that YAML cannot hold is refused: the file would be unreadable from then on, for all keys.
func TestNotesThatYAMLCannotHold(t *testing.T) {
	k, err := OpenKeyFile(filepath.Join(t.TempDir(), "keys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, c := range "\x00\t\n\r\v\u0085\u2028\ufeff #'|>" {
		for _, note := range []string{string(c), "a" + string(c) + "b", string(c) + "\n b"} {
			_, added, err := k.Add(Key{Sub: "ann", Roles: userRoles, Note: note, Request: note})
			if err != nil {
				refused++
				continue
			}
			if keys, _, err := readKeys(k.path); err != nil || len(keys) != 1 || keys[0].Note != note || keys[0].Request != note {
				t.Fatalf("added %q; the file has %v, %v", note, keys, err)
			}
			if err := k.Remove(added.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if refused == 0 || refused > 5 {
		t.Errorf("%d notes were refused", refused)
	}
	if _, _, err := k.Add(Key{Sub: "ann", Roles: userRoles, Note: "plain"}); err != nil {
		t.Errorf("after that: %v", err)
	}
}
