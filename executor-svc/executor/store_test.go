package executor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/executor"
	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
)

// filledFolder is a data folder with a few tasks, and the journal that holds it open.
func filledFolder(t *testing.T) (dir string, s *bolt.Store) {
	t.Helper()
	dir = t.TempDir()
	s, err := bolt.Open(filepath.Join(dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for range 3 {
		if _, _, err := s.Create(t.Context(), journaltest.NewTask("ann")); err != nil {
			t.Fatal(err)
		}
	}
	return dir, s
}

// What the command line can do with a folder that no server uses, and its error if one does.
func TestStoreOfAFolder(t *testing.T) {
	dir, s := filledFolder(t)
	calls := map[string]func(dir string) error{
		"StoreInfo":    func(dir string) error { _, err := executor.StoreInfo(dir); return err },
		"CheckStore":   func(dir string) error { _, err := executor.CheckStore(dir); return err },
		"CompactStore": func(dir string) error { _, _, err := executor.CompactStore(dir); return err },
	}
	for name, call := range calls {
		if err := call(dir); !errors.Is(err, executor.ErrLocked) || !strings.Contains(err.Error(), "stop the server") {
			t.Errorf("%s while it is in use: %v, want ErrLocked and what to do", name, err)
		}
		if err := call(t.TempDir()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--data") {
			t.Errorf("%s of an empty folder: %v, want ErrNotExist and what to do", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if i, err := executor.StoreInfo(dir); err != nil || i.GetTasks()["INIT"] != 3 || i.GetRecords() != 3 || i.GetSchema() != 9 {
		t.Errorf("%+v, %v", i, err)
	}
	if p, err := executor.CheckStore(dir); err != nil || len(p) != 0 {
		t.Errorf("problems %v, %v", p, err)
	}
	if before, after, err := executor.CompactStore(dir); err != nil || after > before || after == 0 {
		t.Errorf("%d to %d bytes, %v", before, after, err)
	}
}

// A killed process with schema 5 left an ended task in the journal's file, and in its log one that waits for an approval. Their outputs have 1.2 MB.
// Both can be read; the second goes on, with an output that is stored already; deleting both leaves nothing.
func TestJournalOfSchema5(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script("read", "write", "read"), pool: fake.NewPool()}
	for _, name := range []string{"journal.db", "journal.db-log0", "journal.db-log1"} {
		unpack(t, filepath.Join("testdata", "journal-v5", name+".gz"), filepath.Join(r.dir, name))
	}
	known, own := strings.Repeat("ratchet ", 150_000), strings.Repeat("pawl ", 240_000)
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(fake.TextResult(known, false))
	}
	r.start()
	list, err := r.tasks.ListTasks(t.Context(), &executorv1.ListTasksRequest{}) // newest first
	if err != nil || len(list.GetTasks()) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	second, first := list.GetTasks()[0], list.GetTasks()[1]
	wantOutputs(t, r.events(first.GetId()), known, known, known)
	wantOutputs(t, r.events(second.GetId()), own)
	if _, err := r.approve(second.GetId(), r.untilWait(second.GetId(), executorv1.WaitKind_WAIT_KIND_APPROVAL).GetId(), ""); err != nil {
		t.Fatal(err)
	}
	r.until(second.GetId(), flowSuccess)
	wantOutputs(t, r.events(second.GetId()), own, known, known)
	wantSound := func(tasks int64) {
		r.stop()
		if i, err := executor.StoreInfo(r.dir); err != nil || i.GetTasks()["SUCCESS"] != tasks || i.GetPayloads() != tasks || i.GetSchema() <= 5 {
			t.Errorf("%v, %v", i, err)
		}
		if p, err := executor.CheckStore(r.dir); err != nil || len(p) != 0 {
			t.Errorf("problems %v, %v", p, err)
		}
	}
	wantSound(2)
	r.start()
	for _, task := range list.GetTasks() {
		if _, err := r.tasks.DeleteTask(t.Context(), &executorv1.DeleteTaskRequest{Id: task.GetId()}); err != nil {
			t.Error(err)
		}
	}
	wantSound(0)
}

// unpack writes the content of a gzip file.
func unpack(t *testing.T, from, to string) {
	t.Helper()
	packed, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(unpacked)
	if err := errors.Join(err, os.WriteFile(to, raw, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// wantOutputs compares the messages of steps' outputs.
func wantOutputs(t *testing.T, events []*executorv1.ExecutorEvent, messages ...string) {
	t.Helper()
	var got, want []string
	for _, m := range messages {
		want = append(want, `{"message":"`+m+`"}`)
	}
	for _, e := range events {
		if e.GetStepOutput() != nil {
			got = append(got, e.GetStepOutput().GetOutputJson())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d outputs, want %d; or they differ: %.200v", len(got), len(want), got)
	}
}

func TestStoreOfADamagedFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "journal.db"), []byte("cut off"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := executor.StoreInfo(dir); !errors.Is(err, executor.ErrDamaged) {
		t.Errorf("%v, want ErrDamaged", err)
	}
	if _, err := executor.CheckStore(dir); !errors.Is(err, executor.ErrDamaged) {
		t.Errorf("%v, want ErrDamaged", err)
	}
}
