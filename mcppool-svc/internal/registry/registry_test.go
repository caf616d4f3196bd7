package registry

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bolt "go.etcd.io/bbolt"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/errs"
)

// open opens a registry and checks its file when the test ends.
func open(t *testing.T, dir string, config ...*Server) *Registry {
	t.Helper()
	st, err := store.Open(dir, Buckets()...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(st, config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil { // closing twice is fine
			t.Error(err)
		}
		if dir != "" {
			checkFile(t, dir)
		}
	})
	return r
}

func checkFile(t *testing.T, dir string) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, store.FileName), 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return // another registry has it
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("the file is damaged: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func stdio(id, owner string) *Server {
	return &Server{ID: id, Owner: owner, Stdio: &Stdio{Command: "x", Env: map[string]string{"A": "b"}}, AutoActivate: true}
}

func TestEverythingIsStored(t *testing.T) {
	dir := t.TempDir()
	full := &Server{
		ID: "full", Owner: "ann", DisplayName: "Full", Description: "all of it",
		HTTP:     &HTTP{URL: "https://a.example", Headers: map[string]string{"A": "secret"}, PublicOnly: true},
		Disabled: true, AutoActivate: true, Trusted: true, ByOperator: true, CallTimeout: time.Minute, StartTimeout: time.Second,
		Pinning: PinNothing, Sampling: &Sampling{Model: "fast", MaxTokens: 9, MaxRequests: 3},
		Permissions: []Rule{{Users: []string{"bob"}, Tools: []string{"a*"}, Effects: []commonv1.Effect{commonv1.Effect_EFFECT_WRITE}, Decision: Ask}},
		Policies:    map[string]Policy{"*": {Effect: commonv1.Effect_EFFECT_READ, Idempotent: true, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_HIGH}},
	}
	r := open(t, dir)
	created, err := r.Create("ann", "r1", "digest", full)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create("op", "", "", stdio("gone", "")); err != nil {
		t.Fatal(err)
	}
	gone, err := r.Lookup("bob", "gone")
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ann", "bob"} {
		if err := r.SetActive(user, gone, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.SetActive("ann", created, false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Delete("", "gone", ""); err != nil {
		t.Fatal(err)
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}

	r = open(t, dir)
	got, err := r.Lookup("ann", "full")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(created, got, cmpopts.IgnoreUnexported(Server{})); diff != "" {
		t.Error(diff)
	}
	if r.Active("ann", got) {
		t.Error("the deactivation was forgotten")
	}
	again, err := r.Create("ann", "r1", "digest", full)
	if err != nil || again.UID != created.UID {
		t.Errorf("repeated create: %v, %v", again, err)
	}
	// A deactivation of a deleted server does not apply to the next server with its id.
	if _, err := r.Create("op", "", "", stdio("gone", "")); err != nil {
		t.Fatal(err)
	}
	gone, err = r.Lookup("bob", "gone")
	if err != nil || !r.Active("bob", gone) {
		t.Errorf("the new server inherits the old one's deactivation (%v)", err)
	}
}

func TestRepeatedCreate(t *testing.T) {
	r := open(t, "")
	first, err := r.Create("ann", "r1", "d", stdio("a", "ann"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Update("ann", "a", first.Etag(), func(s *Server) error { s.Description = "new"; return nil }); err != nil {
		t.Fatal(err)
	}
	if again, err := r.Create("ann", "r1", "d", stdio("a", "ann")); err != nil || again.UID != first.UID {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	if _, err := r.Create("ann", "r1", "other", stdio("a", "ann")); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED {
		t.Errorf("error = %v", err)
	}
	if _, err := r.Delete("ann", "a", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create("ann", "r1", "other", stdio("b", "ann")); err != nil {
		t.Errorf("once it is deleted: %v", err)
	}
}

func TestChangesAreRefused(t *testing.T) {
	config := stdio("file", "")
	config.FromConfig = true
	r := open(t, "", config)
	created, err := r.Create("ann", "", "", stdio("a", "ann"))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(s *Server) error { s.Description = "x"; return nil }
	failing := errs.New(codes.OutOfRange, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "not that")
	tests := []struct {
		name string
		do   func() error
		want commonv1.ErrorReason
	}{
		{"unknown", func() error { _, err := r.Update("ann", "none", "", edit); return err }, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND},
		{"another's", func() error { _, err := r.Update("bob", "a", "", edit); return err }, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND},
		{"old etag", func() error { _, err := r.Update("ann", "a", "old", edit); return err }, commonv1.ErrorReason_ERROR_REASON_CONFLICT},
		{"edit fails", func() error {
			_, err := r.Update("ann", "a", "", func(*Server) error { return failing })
			return err
		}, failing.Reason},
		{"from a file", func() error { _, err := r.Update("", "file", "", edit); return err }, commonv1.ErrorReason_ERROR_REASON_READ_ONLY},
		{"delete from a file", func() error { _, err := r.Delete("", "file", ""); return err }, commonv1.ErrorReason_ERROR_REASON_READ_ONLY},
		{"delete, old etag", func() error { _, err := r.Delete("ann", "a", "old"); return err }, commonv1.ErrorReason_ERROR_REASON_CONFLICT},
		{"exists", func() error { _, err := r.Create("ann", "", "", stdio("a", "ann")); return err }, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS},
		{"a shared one exists", func() error { _, err := r.Create("ann", "", "", stdio("file", "ann")); return err }, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(); errs.Reason(err) != tt.want {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
	if got, err := r.Lookup("ann", "a"); err != nil || !same(got, created) {
		t.Errorf("a refused change was made: %+v, %v", got, err)
	}
}

// brokenStore cannot write.
type brokenStore struct{ store.Store }

func (brokenStore) Apply(...store.Change) error {
	return &fs.PathError{Op: "write", Path: "/srv/pawl/mcppool.db", Err: errors.New("disk full")}
}

func TestCreateThatCannotBeStored(t *testing.T) {
	r := open(t, "")
	r.store = brokenStore{}
	_, err := r.Create("ann", "r1", "d", stdio("a", "ann"))
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("error = %v", err)
	}
	if shown := errs.From(err).Public().Message; !strings.Contains(shown, "disk full") || strings.Contains(shown, "/srv") {
		t.Errorf("a user who is no operator is shown %q", shown)
	}
	if list := r.Visible("ann"); len(list) != 0 {
		t.Errorf("the server is visible: %v", list)
	}
}

func TestUnknownFormat(t *testing.T) {
	for stored, want := range map[string]string{`{"v":2,"id":"a"}`: "newer version", `{"id":"a"}`: "no format version"} {
		r := open(t, t.TempDir())
		if err := r.store.Apply(store.Change{Bucket: BucketServers, Key: "\x00a", Value: []byte(stored)}); err != nil {
			t.Fatal(err)
		}
		if _, err := New(r.store, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want one with %q", stored, err, want)
		}
	}
}

func TestConfigurationHidesStoredServer(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	if _, err := r.Create("op", "", "", stdio("a", "")); err != nil {
		t.Fatal(err)
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	config := stdio("a", "")
	config.FromConfig = true
	r = open(t, dir, config)
	if got, err := r.Lookup("ann", "a"); err != nil || !got.FromConfig {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, dir).Lookup("ann", "a"); err != nil || got.FromConfig {
		t.Errorf("without the file: %+v, %v", got, err)
	}
}
