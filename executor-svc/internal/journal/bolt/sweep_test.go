package bolt_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
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

// future is a time after the end of every task of this package's tests.
const future = 1_900_000_000_000_000_000

// Issue 16: deletions of large tasks do not hold up other changes until all are made: they become durable in several batches.
func TestSweepHoldsUpOthersBriefly(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "journal.db"))
	const tasks, records = 64, 1000
	for range tasks {
		n := journaltest.NewTask("ann")
		n.Checkpoint.Status, n.Checkpoint.EndTime, n.Checkpoint.LastSeq = success, 1, records
		n.Records = nil
		for seq := range uint64(records) {
			fact := &storagev1.Fact{Kind: &storagev1.Fact_StepOutput{StepOutput: "{}"}}
			n.Records = append(n.Records, journal.Record{FirstSeq: seq + 1, Record: &storagev1.Record{Facts: []*storagev1.Fact{fact}}})
		}
		if _, _, err := s.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Logged()
	if n, err := s.Sweep(t.Context(), time.Unix(0, future), tasks); err != nil || n != tasks {
		t.Errorf("%d tasks, %v; want %d", n, err, tasks)
	}
	if batches := s.Logged() - before; batches < 3 {
		t.Errorf("they were deleted in %d batches", batches)
	}
	if i, err := s.Info(t.Context()); err != nil || i.Records != 0 {
		t.Errorf("left: %v, %v", i, err)
	}
}

// A disk that takes no changes ends a sweep with its error.
func TestSweepOnFailingDisk(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "journal.db"))
	finishTasks(t, s, 100, 10)
	s.FailCommits(func(func() error) error { return errDisk })
	if n, err := s.Sweep(t.Context(), time.Unix(0, future), 100); n != 0 || !errors.Is(err, errDisk) {
		t.Errorf("%d tasks, %v; want the disk's error", n, err)
	}
	s.FailCommits(nil)
	if n, err := s.Sweep(t.Context(), time.Unix(0, future), 100); n != 100 || err != nil {
		t.Errorf("afterwards %d tasks, %v; want 100", n, err)
	}
}

// Issue 16: while ended tasks are deleted as fast as tasks end, no change of a running task is lost, and the file stops growing, because the pages
// of deleted tasks are used again.
func TestSweepBesideRunningTasks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	const rounds, tasks, steps = 12, 60, 10
	size := func() (size int64) { // without the space that bbolt allocates ahead
		if err := errors.Join(s.Apply(), s.DB().View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil })); err != nil {
			t.Fatal(err)
		}
		return size
	}
	kept, err := newWorker(t.Context(), s, "bob") // it runs all the time
	if err != nil {
		t.Fatal(err)
	}
	if err := own(t.Context(), s, []*worker{kept}); err != nil {
		t.Fatal(err)
	}
	var settled int64
	for round := range rounds {
		var g sync.WaitGroup
		g.Go(func() {
			for left := tasks * min(round, 1); left > 0; { // those of the round before
				n, err := s.Sweep(t.Context(), time.Unix(0, future), min(left, 16))
				if err != nil || n == 0 {
					t.Error(n, err)
					return
				}
				left -= n
			}
		})
		g.Go(func() {
			if err := errors.Join(kept.intent(t.Context(), 60), kept.outcome(t.Context(), 60)); err != nil {
				t.Error(err)
			}
		})
		finishTasks(t, s, tasks, steps)
		g.Wait()
		if round == rounds/3 {
			settled = size()
		}
	}
	if now := size(); now > 2*settled {
		t.Errorf("the file has %d bytes after %d rounds, and %d after a third of them", now, rounds, settled)
	}
	info, err := s.Info(t.Context())
	if err != nil || info.Tasks["SUCCESS"] != tasks || info.Tasks["RUNNING"] != 1 {
		t.Errorf("%v, %v; want the ended tasks of the last round and the running one", info.GetTasks(), err)
	}
	if rs, err := s.Records(t.Context(), kept.n.ID, 0, 1<<30); err != nil || len(rs) != 1+2*rounds {
		t.Errorf("the running task has %d records, %v; want %d", len(rs), err, 1+2*rounds)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if problems, err := bolt.CheckFile(path); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
