package bolt

import (
	"os"
	"path/filepath"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A task that was created a moment ago is read and changed in memory: the file is not even looked at.
func TestNewTaskNeedsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	n := journaltest.NewTask("ann")
	if _, _, err := s.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 1, Max: 1})
	if err != nil || len(c.Claims) != 1 {
		t.Fatalf("Claim: %v %v", c, err)
	}
	n.Checkpoint.Rev, n.Checkpoint.Status = 2, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	if err := s.Commit(t.Context(), journal.Transition{TaskID: n.ID, Epoch: c.Claims[0].Epoch, Head: n.Head, Checkpoint: n.Checkpoint}); err != nil {
		t.Errorf("Commit: %v", err)
	}
	if _, err := s.Send(t.Context(), n.ID, &storagev1.Command{}); err != nil {
		t.Errorf("Send: %v", err)
	}
	if task, err := s.Load(t.Context(), n.ID); err != nil || task.Checkpoint.GetRev() != 2 || len(task.Inbox) != 1 {
		t.Errorf("Load: %v %v", task, err)
	}
	if all, err := s.Records(t.Context(), n.ID, 0, 1<<20); err != nil || len(all) != 1 {
		t.Errorf("Records: %v %v", all, err)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// What comes into the file while a snapshot is read that has not opened it yet is not seen by half: it is read once more.
func TestFileThatMovesIsReadAgain(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	old, later := journaltest.NewTask("ann"), journaltest.NewTask("ann")
	for _, n := range []journal.NewTask{old, later} {
		if _, _, err := s.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if err := s.file.apply(); err != nil {
			t.Fatal(err)
		}
	}
	key := agentKey("ann", "helper")
	if err := s.PutAgent(t.Context(), "ann", "other", &storagev1.Agent{}, 0); err != nil {
		t.Fatal(err)
	}
	calls := 0
	err = s.file.glance(func(b *table) error {
		if calls++; calls == 1 {
			if err := s.PutAgent(t.Context(), "ann", "helper", &storagev1.Agent{}, 0); err != nil {
				t.Error(err)
			}
			if err := s.file.apply(); err != nil {
				t.Error(err)
			}
		}
		if seen := b.Get(key) != nil; !seen {
			t.Error("it is not the newest state that is read")
		}
		return nil
	})
	if err != nil || calls != 2 {
		t.Errorf("read %d times, %v", calls, err)
	}
	calls = 0
	err = s.file.view(func(b *table) error {
		calls++
		if err := s.DeleteAgent(t.Context(), "ann", "helper", 0); err != nil {
			t.Error(err)
		}
		if b.Get(key) == nil {
			t.Error("what is read changed meanwhile")
		}
		return nil
	})
	if err != nil || calls != 1 {
		t.Errorf("read %d times, %v", calls, err)
	}
}
