package bolt

import (
	"os"
	"path/filepath"
	"testing"
)

// A damaged meta page makes bbolt fall back silently to the transaction before the newest; Suspect and CheckFile report it.
func TestDamagedMetaPageIsReported(t *testing.T) {
	for page := range int64(2) {
		path := filepath.Join(t.TempDir(), "journal.db")
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if s.Suspect() != nil {
			t.Errorf("a new file: %v", s.Suspect())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if problems, err := CheckFile(path); err != nil || len(problems) > 0 {
			t.Errorf("a whole file: %v, %v", problems, err)
		}
		flip(t, path, page*int64(os.Getpagesize())+40)
		if problems, err := CheckFile(path); err != nil || len(problems) != 1 {
			t.Errorf("meta page %d is damaged: %v, %v; want one problem", page, problems, err)
		}
		s, err = Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if s.Suspect() == nil {
			t.Errorf("meta page %d is damaged, and Suspect does not report it", page)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
