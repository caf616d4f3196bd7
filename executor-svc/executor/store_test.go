package executor_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/executor-svc/executor"
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
	if i, err := executor.StoreInfo(dir); err != nil || i.GetTasks()["INIT"] != 3 || i.GetRecords() != 3 || i.GetSchema() != 6 {
		t.Errorf("%+v, %v", i, err)
	}
	if p, err := executor.CheckStore(dir); err != nil || len(p) != 0 {
		t.Errorf("problems %v, %v", p, err)
	}
	if before, after, err := executor.CompactStore(dir); err != nil || after > before || after == 0 {
		t.Errorf("%d to %d bytes, %v", before, after, err)
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
