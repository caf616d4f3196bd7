package bolt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
)

// Compact does not remove a log whose last record is damaged, the only trace of an acknowledged change: opening reports it.
func TestCompactOfATornLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	o := newOwned(t, s)
	for range 4 {
		if err := o.commit(s); err != nil {
			t.Fatal(err)
		}
	}
	copied := copyJournal(t, path)
	log := journaltest.Files(copied)[0]
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(strings.TrimRight(string(raw), "\x00"))-3] ^= 1 // the newest acknowledged record
	if err := os.WriteFile(log, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bolt.Compact(copied); err == nil || !strings.Contains(err.Error(), "may be missing") {
		t.Errorf("compacting: %v", err)
	}
	if open(t, copied).Suspect() == nil {
		t.Error("a change is gone, and nothing says so")
	}
}
