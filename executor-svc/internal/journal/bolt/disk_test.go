package bolt_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// envFullDisk names the file that a child process fills up until its disk is full.
const envFullDisk = "PAWL_TEST_FULL_DISK"

// A full disk gives a clear error, loses nothing that was acknowledged, and the store works again once there is room. The
// limit applies to the process, so a child process fills the disk.
func TestFullDisk(t *testing.T) {
	path := os.Getenv(envFullDisk)
	if path != "" {
		fillDisk(t, path)
		return
	}
	path = filepath.Join(t.TempDir(), "journal.db")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), envFullDisk+"="+path, "GORACE=atexit_sleep_ms=0") // the race detector waits a second at each exit
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if problems, err := bolt.CheckFile(path); err != nil || len(problems) > 0 {
		t.Errorf("afterwards: %v %v", problems, err)
	}
}

func fillDisk(t *testing.T, path string) {
	signal.Ignore(syscall.SIGXFSZ)
	room := func(bytes uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: 1 << 40}); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, path)
	room(256 << 10)
	kept := map[string]uint64{}
	n := journaltest.NewTask("ann")
	n.Head.Goal = strings.Repeat("goal", 1000)
	full := 0
	for full < 5 {
		n.ID = journaltest.NewTask("ann").ID
		_, _, err := s.Create(t.Context(), n)
		if err == nil {
			no, err := s.Send(t.Context(), n.ID, &storagev1.Command{Id: "c"})
			kept[n.ID] = no
			if err != nil {
				kept[n.ID] = 0
				full++
			}
			continue
		}
		full++
		if !errors.Is(err, syscall.EFBIG) && !strings.Contains(err.Error(), "file too large") || !strings.Contains(err.Error(), "writing the journal") {
			t.Fatalf("a full disk: %v", err)
		}
		if _, err := s.Load(t.Context(), n.ID); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("a refused change is there: %v", err)
		}
	}
	if len(kept) < 10 {
		t.Fatalf("%d tasks fit, too few to show anything", len(kept))
	}
	checkKept(t, s, kept)
	if s.Healthy() == nil {
		t.Error("the journal is healthy on a full disk")
	}
	room(64 << 20)
	for began := time.Now(); s.Healthy() != nil; runtime.Gosched() { // it looks again after a second
		if time.Since(began) > 10*time.Second {
			t.Fatalf("with room again: %v", s.Healthy())
		}
	}
	if _, created, err := s.Create(t.Context(), n); err != nil || !created {
		t.Errorf("with room again: %v %v", created, err)
	}
	kept[n.ID] = 0
	checkKept(t, s, kept)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	room(16 << 10)
	if _, _, err := bolt.Compact(path); err == nil || !strings.Contains(err.Error(), "the file is as it was") || !strings.Contains(err.Error(), "file too large") || len(workFolders(t, filepath.Dir(path))) > 0 {
		t.Errorf("a compaction on a full disk: %v", err)
	}
	room(64 << 20)
	s = open(t, path)
	checkKept(t, s, kept)
}

func checkKept(t *testing.T, s *bolt.Store, kept map[string]uint64) {
	t.Helper()
	for id, no := range kept {
		if _, err := s.Load(t.Context(), id); err != nil {
			t.Errorf("acknowledged and gone: %v", err)
		}
		if in, err := s.Inbox(t.Context(), id); err != nil || no != 0 && (len(in) != 1 || in[0].No != no) {
			t.Errorf("inbox %v, %v; want command %d", in, err, no)
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

var errDisk = errors.New("the disk is on fire")

// No reader sees a change before it is durable or waits for it: until then readers see the state before it.
func TestNothingIsSeenBeforeItIsDurable(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "journal.db"))
	n := journaltest.NewTask("ann")
	written, safe := make(chan struct{}), make(chan struct{})
	s.FailCommits(func(commit func() error) error {
		err := commit()
		close(written)
		<-safe
		return err
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, _, err := s.Create(context.Background(), n); err != nil {
			t.Error(err)
		}
	})
	<-written
	if _, err := s.Load(t.Context(), n.ID); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("read before it is durable: %v", err)
	}
	// Nor can the task be claimed.
	if c, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 1, Max: 1}); err != nil || len(c.Claims) != 0 {
		t.Errorf("claimed before it is durable: %v %v", c, err)
	}
	close(safe)
	wg.Wait()
	if _, err := s.Load(t.Context(), n.ID); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	s.FailCommits(nil)
}

// A sync of the log fails after the record was written: it is unknown what is on disk, so no change is accepted until the journal is
// opened again. Acknowledged changes are there then, and the failed one is there as a whole or not at all.
func TestDiskFailsAtSync(t *testing.T) {
	for what, written := range map[string]bool{"the record is on disk": true, "the record is lost": false} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			s := open(t, path)
			before, n := journaltest.NewTask("ann"), journaltest.NewTask("ann")
			if _, _, err := s.Create(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			lost := copyJournal(t, path)
			s.FailCommits(func(commit func() error) error { return errors.Join(commit(), errDisk) })
			if _, _, err := s.Create(t.Context(), n); !errors.Is(err, bolt.ErrSync) || !errors.Is(err, errDisk) {
				t.Fatalf("%v, want ErrSync and the disk's error", err)
			}
			s.FailCommits(nil)
			if _, _, err := s.Create(t.Context(), journaltest.NewTask("ann")); !errors.Is(err, bolt.ErrSync) || !strings.Contains(err.Error(), "start pawl again") {
				t.Errorf("a change after it: %v", err)
			}
			if _, err := s.Load(t.Context(), n.ID); !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("read although it may not be durable: %v", err)
			}
			left := lost
			if written {
				left = copyJournal(t, path)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			again := open(t, left)
			if _, err := again.Load(t.Context(), before.ID); err != nil {
				t.Errorf("acknowledged and gone: %v", err)
			}
			if _, created, err := again.Create(t.Context(), n); err != nil || created == written {
				t.Errorf("submitted again: created %t, %v", created, err)
			}
			// Closing after the error keeps acknowledged changes too.
			if _, err := open(t, path).Load(t.Context(), before.ID); err != nil {
				t.Errorf("after closing: %v", err)
			}
		})
	}
}

// A transaction that fails before it is written leaves nothing behind, in the file or in memory.
func TestDiskFailsBefore(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "journal.db"))
	n := journaltest.NewTask("ann")
	if _, _, err := s.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 9, Max: 9})
	if err != nil || len(c.Claims) != 1 {
		t.Fatal(c, err)
	}
	s.FailCommits(func(func() error) error { return errDisk })
	commit := follow(n, c.Claims[0].Epoch, 2)
	_, send := s.Send(t.Context(), n.ID, &storagev1.Command{})
	_, _, create := s.Create(t.Context(), journaltest.NewTask("ann"))
	for name, err := range map[string]error{"Commit": s.Commit(t.Context(), commit), "Send": send, "Create": create} {
		if !errors.Is(err, errDisk) {
			t.Errorf("%s: %v, want the disk's error", name, err)
		}
	}
	s.FailCommits(nil)
	if in, err := s.Inbox(t.Context(), n.ID); err != nil || len(in) != 0 {
		t.Errorf("inbox %v, %v", in, err)
	}
	if err := s.Commit(t.Context(), commit); err != nil {
		t.Errorf("submitted again: %v", err)
	}
	if rs, err := s.Records(t.Context(), n.ID, 0, 1<<20); err != nil || len(rs) != 2 {
		t.Errorf("%v, %v", rs, err)
	}
	if p, err := s.List(t.Context(), journal.Query{User: "ann", Limit: 9}); err != nil || len(p.Tasks) != 1 {
		t.Errorf("%v, %v", p, err)
	}
	if err := s.Yield(t.Context(), n.ID, c.Claims[0].Epoch); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 9, Max: 9}); err != nil || len(again.Claims) != 1 {
		t.Errorf("due %v, %v; want the task once", again, err)
	}
}
