package bolt_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	"pawl.dev/executor-svc/internal/journal/wal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A large payload is written once, not to the log too. One that no change refers to, because the change was not stored or the process was killed
// before, is removed at the next opening.
func TestLargePayloadIsWrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	n := journaltest.NewTask("ann")
	large := func(c string) []journal.Record {
		text := strings.Repeat(c, 5<<20)
		return []journal.Record{{FirstSeq: 1, Record: &storagev1.Record{Time: 1, Facts: []*storagev1.Fact{{Kind: &storagev1.Fact_StepOutput{StepOutput: text}}}}}}
	}
	n.Records = large("a")
	if _, _, err := s.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if size := wal.Size(path); size > 1<<20 {
		t.Errorf("the log has %d bytes", size)
	}
	s.FailCommits(func(func() error) error { return errDisk })
	lost := journaltest.NewTask("ann")
	lost.Records = large("b")
	if _, _, err := s.Create(t.Context(), lost); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	killed := copyJournal(t, path)
	s.FailCommits(nil)
	for i, path := range []string{killed, path} {
		if i == 1 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, path)
		i, err := s.Info(t.Context())
		if err != nil || i.GetPayloads() != 1 || i.GetBytes()["payloads"] > 6<<20 {
			t.Errorf("%v, %v", i, err)
		}
		got, err := s.Records(t.Context(), n.ID, 0, 1)
		if err != nil || len(got) != 1 || got[0].GetFacts()[0].GetStepOutput() != n.Records[0].GetFacts()[0].GetStepOutput() {
			t.Errorf("%d records, %v", len(got), err)
		}
		if _, created, err := s.Create(t.Context(), lost); err != nil || !created {
			t.Error(created, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if problems, err := bolt.CheckFile(path); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	}
}
