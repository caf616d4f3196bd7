package cli_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/executor-svc/executor"
	"pawl.dev/services/inproc"
)

// openStore makes a journal in the world's data folder; an executor holds it until closeIt is called.
func openStore(t *testing.T, w *world) (closeIt func()) {
	t.Helper()
	none := inproc.New(nil, nil)
	e, err := executor.New(t.Context(), executor.Config{DataDir: w.data}, executor.Deps{Planner: none, Pool: none, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStore(t *testing.T) {
	w := newWorld(t)
	openStore(t, w)()
	w.pawl("store").expect(t, 0, "\ntasks     0\n", "")
	w.pawl("store", "check").expect(t, 0, "the journal is sound\n", "")
	w.pawl("store", "check", "--json").expect(t, 0, `"problems": []`, "")
	w.pawl("store", "compact").expect(t, 0, "the journal is compacted: ", "")
	var sizes struct{ Before, After int64 }
	compacted := w.pawl("store", "compact", "--json")
	if file, err := os.Stat(filepath.Join(w.data, "journal.db")); json.Unmarshal([]byte(compacted.out), &sizes) != nil || err != nil ||
		sizes.After != file.Size() || sizes.Before < sizes.After {
		t.Errorf("%v: %s", err, compacted.whole())
	}
	var info struct {
		Path   string
		Size   int64
		Schema int
	}
	got := w.pawl("store", "info", "--json")
	if err := json.Unmarshal([]byte(got.out), &info); err != nil || info.Path != filepath.Join(w.data, "journal.db") || info.Size == 0 || info.Schema == 0 {
		t.Errorf("%v: %s", err, got.whole())
	}
	if len(w.suites) > 0 {
		t.Error("a server was started")
	}
}

// A server that runs on the folder is named, with what to do.
func TestStoreInUse(t *testing.T) {
	w := newWorld(t)
	defer openStore(t, w)()
	for _, command := range []string{"compact", "check"} {
		w.pawl("store", command).expect(t, 1, "", "is in use by another process\n  next: stop that process")
	}
	w.pawl("store", "info").expect(t, 0, "1: 1 done", "") // by that process
	if err := discover.WriteServerFile(w.data, discover.ServerInfo{PID: os.Getpid(), GRPC: "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	w.pawl("store", "compact").expect(t, 1, "", "gRPC 127.0.0.1:1\n  next: stop it with kill ")
	w.pawl("store", "check", "--server", "127.0.0.1:1").expect(t, 64, "", "pawl store check work on a data folder, not through a server")
}

func TestStoreMissingOrDamaged(t *testing.T) {
	w := newWorld(t)
	for _, command := range []string{"info", "compact", "check"} {
		w.pawl("store", command).expect(t, 1, "", "there is no journal at ")
	}
	if files, _ := os.ReadDir(w.data); len(files) > 0 {
		t.Errorf("looking made %v", files)
	}
	if err := os.WriteFile(filepath.Join(w.data, "journal.db"), []byte(strings.Repeat("rubbish", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"info", "compact", "check"} {
		got := w.pawl("store", command)
		got.expect(t, 1, "", "next: keep a copy of the")
		if suggested := strings.Contains(got.err, "pawl store check"); suggested != (command != "check") {
			t.Error(got.whole())
		}
	}
}
