package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store whose file is checked page by page when the test ends.
func open(t *testing.T, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		check, err := bolt.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = check.Close() }()
		if err := check.Check(); err != nil {
			t.Errorf("the file is inconsistent: %v", err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) (journal.Journal, func() journal.Journal) {
		path := filepath.Join(t.TempDir(), "journal.db")
		return open(t, path), func() journal.Journal { return open(t, path) }
	})
}

func TestSecondOpenerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	open(t, path)
	if _, err := bolt.Open(path); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("second open: %v, want ErrLocked", err)
	}
}

func TestForeignFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a journal ", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Open(path); err == nil || !strings.Contains(err.Error(), "not a Pawl journal") {
		t.Errorf("foreign file: %v", err)
	}
}

func TestTruncatedFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, _, err := s.Create(t.Context(), journaltest.NewTask("ann")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{9000, 12000, 20000} {
		cut := filepath.Join(t.TempDir(), "journal.db")
		if err := os.WriteFile(cut, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bolt.Open(cut); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%d of %d bytes: %v, want an error that says that it is damaged", size, len(whole), err)
		}
	}
}

func TestFolderThatIsNotThere(t *testing.T) {
	if _, err := bolt.Open(filepath.Join(t.TempDir(), "none", "journal.db")); err == nil {
		t.Error("no error for a missing folder")
	}
}
