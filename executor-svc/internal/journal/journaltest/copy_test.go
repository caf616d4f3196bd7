package journaltest_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"pawl.dev/executor-svc/internal/journal/journaltest"
	"pawl.dev/executor-svc/internal/journal/wal"
)

// hasty is a log file that grows fast, because it is not synced.
type hasty struct{ *os.File }

func (hasty) Sync() error { return nil }

// A copy of a log that grows meanwhile may lack records at its end, and none before it.
func TestCopyOfGrowingLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	store := []byte("what the log is applied to")
	if err := os.WriteFile(path, store, 0o600); err != nil {
		t.Fatal(err)
	}
	id := wal.ID{1}
	log, err := wal.CreateOn(path, id, 0, func(name string) (wal.File, error) {
		f, err := os.Create(name)
		return hasty{f}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	copied, over := make(chan struct{}), make(chan error, 1)
	go func() {
		payload := make([]byte, 3000)
		_, _ = rand.Read(payload)
		for log.Size() < 8<<20 {
			select {
			case <-copied:
				over <- nil
				return
			default:
			}
			if err := log.Append(payload); err != nil {
				over <- err
				return
			}
		}
		over <- nil
	}()
	logs, to := wal.Paths(path), filepath.Join(t.TempDir(), "journal.db")
	copies := wal.Paths(to)
	for range 15 {
		journaltest.Copy(t, []string{logs[0], logs[1], path}, []string{copies[0], copies[1], to})
		if _, err := wal.Read(to, id, 0, func([]byte) error { return nil }); err != nil {
			t.Errorf("reading the copy: %v", err)
		}
	}
	close(copied)
	if err := <-over; err != nil {
		t.Error(err)
	}
}
