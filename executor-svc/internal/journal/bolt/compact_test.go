package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
)

// Compact does not remove a log whose last record is damaged, the only trace of an acknowledged change: opening reports it.
func TestCompactOfATornLog(t *testing.T) {
	_, copied, log, raw, end := loggedCommits(t)
	raw[end-3] ^= 1 // the newest acknowledged record
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

// unapplied returns a journal whose changes are all in the log, as a killed process leaves it, and a function that checks the content of a copy of it.
func unapplied(t *testing.T) (path string, check func(what, path string)) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, at)
	s.FailApplying(func(func() error) error { return errDisk })
	o := newOwned(t, s)
	for range 20 {
		if err := o.commit(s); err != nil {
			t.Fatal(err)
		}
	}
	path = copyJournal(t, at)
	s.FailApplying(nil)
	return path, func(what, path string) {
		t.Helper()
		if problems, err := bolt.CheckFile(path); err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %v", what, problems, err)
		}
		s := open(t, path)
		o.expect(t, s, o.rev, o.rev)
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// copyFolder copies a folder with its folders.
func copyFolder(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// workFolders returns the folders of unfinished compactions.
func workFolders(t *testing.T, folder string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, ".journal-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Issue 16: a compaction that is killed before or after any of its changes of the disk, or for which any of them fails, leaves a complete journal: the
// old one or the new one. The next compaction succeeds and removes what the killed one left.
func TestCompactFailsAnywhere(t *testing.T) {
	path, check := unapplied(t)
	steps := 0
	kill := func(what, folder string) {
		check(what, filepath.Join(copyFolder(t, folder), "journal.db"))
		left := filepath.Join(copyFolder(t, folder), "journal.db")
		if _, _, err := bolt.Compact(left); err != nil || len(workFolders(t, filepath.Dir(left))) > 0 {
			t.Errorf("%s: the next compaction: %v", what, err)
		}
		check(what+", then compacted", left)
	}
	fresh := filepath.Join(copyFolder(t, filepath.Dir(path)), "journal.db")
	err := bolt.CompactBy(fresh, func(change func() error) error {
		kill(fmt.Sprintf("killed before change %d", steps), filepath.Dir(fresh))
		err := change()
		kill(fmt.Sprintf("killed after change %d", steps), filepath.Dir(fresh))
		steps++
		return err
	})
	if err != nil || steps < 7 {
		t.Fatalf("%d changes, %v", steps, err)
	}
	for failing := range steps {
		for _, made := range []bool{false, true} {
			what := fmt.Sprintf("change %d fails; whether it is made: %t", failing, made)
			path, step := filepath.Join(copyFolder(t, filepath.Dir(path)), "journal.db"), 0
			err := bolt.CompactBy(path, func(change func() error) error {
				defer func() { step++ }()
				switch {
				case step != failing:
					return change()
				case made:
					return errors.Join(change(), errDisk)
				}
				return errDisk
			})
			if !errors.Is(err, errDisk) || step != failing+1 {
				t.Errorf("%s: %v", what, err)
			}
			if left := workFolders(t, filepath.Dir(path)); len(left) > 0 && !made {
				t.Errorf("%s: %v is left", what, left)
			}
			check(what, path)
		}
	}
}

// After a power failure the log may still be beside the compacted journal.
func TestCompactedJournalBesideItsOldLog(t *testing.T) {
	path, check := unapplied(t)
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs := journaltest.Files(path)[:2]
	contents := map[string][]byte{}
	for _, name := range logs {
		if contents[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := bolt.Compact(path); err != nil {
		t.Fatal(err)
	}
	for name, raw := range contents {
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check("with its old log", path)
}
