package bolt_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
)

// Sweep leaves a damaged task and reports it once. It deletes all others, also those that ended later.
func TestSweepLeavesDamagedTasks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 20 {
		n := journaltest.NewTask("ann")
		if _, _, err := s.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, n.ID)
		tr := follow(n, epochOf(t, s, n.ID), 2)
		tr.Checkpoint.Status, tr.Checkpoint.EndTime = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, time.Now().UnixNano()
		if err := s.Commit(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
	}
	head, gone := bolt.KeysOf(ids[3], "ann", "")[0], bolt.KeysOf(ids[11], "ann", "")[1]
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("pawl"))
		return errors.Join(b.Put(head, []byte("spoiled")), b.Delete(gone))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = bolt.Open(path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour), 100)
	if n != 18 || !errors.Is(err, journal.ErrDamaged) || strings.Count(err.Error(), "is kept") != 2 || !strings.Contains(err.Error(), ids[3]) {
		t.Errorf("%d tasks, %v; want 18, and a word about two", n, err)
	}
	if n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour), 100); n != 0 || err != nil {
		t.Errorf("the next time %d tasks, %v", n, err)
	}
}

// epochOf claims all due tasks and returns the epoch of one.
func epochOf(t *testing.T, s *bolt.Store, id string) uint64 {
	t.Helper()
	c, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 100, Max: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range c.Claims {
		if claim.TaskID == id {
			return claim.Epoch
		}
	}
	t.Fatalf("%s cannot be claimed", id)
	return 0
}
