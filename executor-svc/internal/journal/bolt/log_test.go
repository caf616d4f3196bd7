package bolt_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// copyJournal copies the files of a journal as they are now, as a killed process would leave them.
func copyJournal(t testing.TB, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "journal.db")
	journaltest.Copy(t, journaltest.Files(path), journaltest.Files(to))
	return to
}

// owned is a claimed task that a test makes transitions of. Each posts a message to the topic with the task's id.
type owned struct {
	n     journal.NewTask
	epoch uint64
	rev   uint64
}

func newOwned(t testing.TB, s *bolt.Store) *owned {
	t.Helper()
	o := &owned{n: journaltest.NewTask("ann"), rev: 1}
	if _, _, err := s.Create(t.Context(), o.n); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateTopic(t.Context(), o.n.ID, journaltest.NewTopic("ann", "@x"), nil, 0); err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 1000, Max: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range c.Claims {
		if c.TaskID == o.n.ID {
			o.epoch = c.Epoch
		}
	}
	return o
}

func (o *owned) commit(s *bolt.Store) error {
	tr := follow(o.n, o.epoch, o.rev+1)
	tr.Post = &journal.Post{TopicID: o.n.ID, Now: time.Unix(0, int64(o.rev)), Facts: []*storagev1.TopicFact{journaltest.Message(fmt.Sprint(o.rev), "x")}}
	err := s.Commit(context.Background(), tr)
	if err == nil {
		o.rev++
	}
	return err
}

// expect checks that a task's rev is least to most, and that it has one record for each, and a message for each but the first.
func (o *owned) expect(t testing.TB, s *bolt.Store, least, most uint64) {
	t.Helper()
	task, err := s.Load(t.Context(), o.n.ID)
	if err != nil {
		t.Errorf("acknowledged and gone: %v", err)
		return
	}
	rev := task.Checkpoint.GetRev()
	if rev < least || rev > most {
		t.Errorf("rev %d, want %d to %d", rev, least, most)
	}
	if rs, err := s.Records(t.Context(), o.n.ID, 0, 1<<30); err != nil || uint64(len(rs)) != rev {
		t.Errorf("%d records of rev %d, %v", len(rs), rev, err)
	}
	topic, err := s.Topic(t.Context(), o.n.ID)
	if err != nil || topic.State.GetMessageCount() != rev-1 {
		t.Errorf("rev %d, and %d messages were posted; %v", rev, topic.State.GetMessageCount(), err)
	}
}

// cutOff reports whether the only problem is that the last record of the log is incomplete, and so was never acknowledged.
func cutOff(problems []bolt.Problem) bool {
	return len(problems) == 1 && strings.Contains(problems[0].What, "incomplete")
}

// A process is killed at any moment while several goroutines write: acknowledged changes are there, the journal is consistent, and
// FileInfo counts what Info counts.
func TestKilledAtAnyMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	var mu sync.Mutex // guards acked
	acked := map[string]uint64{}
	// looking stops the writers while a copy is checked, so that the journal does not grow faster than it is read.
	var looking sync.RWMutex
	wrote, enough := make(chan struct{}), make(chan struct{})
	var writers sync.WaitGroup
	for range 8 {
		o := newOwned(t, s)
		writers.Go(func() {
			for {
				looking.RLock()
				err := o.commit(s)
				looking.RUnlock()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acked[o.n.ID] = o.rev
				mu.Unlock()
				select {
				case <-enough:
					return
				case wrote <- struct{}{}:
				default:
				}
			}
		})
	}
	for i := range 12 {
		for range 50 {
			<-wrote
		}
		if i%3 == 1 {
			if err := s.Apply(); err != nil {
				t.Error(err)
			}
		}
		mu.Lock()
		before := map[string]uint64{}
		for id, rev := range acked {
			before[id] = rev
		}
		mu.Unlock()
		copied := copyJournal(t, path)
		looking.Lock()
		problems, err := bolt.CheckFile(copied)
		torn := cutOff(problems)
		if err != nil || len(problems) > 0 && !torn {
			t.Errorf("copy %d: CheckFile: %v %v", i, problems, err)
		}
		if i%4 == 2 {
			if _, _, err := bolt.Compact(copied); (err != nil) != torn {
				t.Errorf("copy %d: Compact: %v; whether the last record was cut off: %t", i, err, torn)
			}
		}
		offline, err := bolt.FileInfo(copied)
		if err != nil {
			t.Errorf("copy %d: FileInfo: %v", i, err)
		}
		again := open(t, copied)
		for id, rev := range before {
			o := &owned{n: journal.NewTask{ID: id}}
			o.expect(t, again, rev, 1<<60)
		}
		online, err := again.Info(t.Context())
		if err != nil || online.Records != offline.Records || online.Tasks["RUNNING"] != offline.Tasks["RUNNING"] {
			t.Errorf("copy %d: %d records, and %d without a server; %v", i, online.Records, offline.Records, err)
		}
		looking.Unlock()
	}
	close(enough)
	writers.Wait()
}

// A process is killed before, while or after it applies the log: the next one reads the log again and reaches the same state, also
// if it is itself killed right after it has applied the log.
func TestKilledWhileApplying(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	o := newOwned(t, s)
	for range 20 {
		if err := o.commit(s); err != nil {
			t.Fatal(err)
		}
	}
	copies := map[string]string{"before": copyJournal(t, path)}
	s.FailApplying(func(commit func() error) error {
		copies["before the commit"] = copyJournal(t, path)
		err := commit()
		copies["after the commit"] = copyJournal(t, path)
		return err
	})
	if err := s.Apply(); err != nil {
		t.Fatal(err)
	}
	s.FailApplying(nil)
	copies["after"] = copyJournal(t, path)
	if err := o.commit(s); err != nil {
		t.Fatal(err)
	}
	copies["one later"] = copyJournal(t, path)
	for when, copied := range copies {
		t.Run(when, func(t *testing.T) {
			want := o.rev
			if when != "one later" {
				want--
			}
			logs := journaltest.Files(copied)[:2]
			var kept [2][]byte
			for i, name := range logs {
				var err error
				if kept[i], err = os.ReadFile(name); err != nil {
					t.Fatal(err)
				}
			}
			s := open(t, copied)
			o.expect(t, s, want, want)
			half := copyJournal(t, copied)
			for i, name := range journaltest.Files(half)[:2] {
				if err := os.WriteFile(name, kept[i], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o.expect(t, open(t, half), want, want)
			// Numbers of commands are never reused.
			first, err1 := s.Send(t.Context(), o.n.ID, &storagev1.Command{Id: "a"})
			second, err2 := s.Send(t.Context(), o.n.ID, &storagev1.Command{Id: "b"})
			if err := errors.Join(err1, err2); err != nil || second <= first {
				t.Errorf("commands %d and %d, %v", first, second, err)
			}
		})
	}
}

// loggedCommits returns a task after 4 commits, a copy of its journal as a killed process leaves it, and the copy's log: its path, its bytes and where its records end.
func loggedCommits(t *testing.T) (o *owned, copied, log string, raw []byte, end int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	o = newOwned(t, s)
	for range 4 {
		if err := o.commit(s); err != nil {
			t.Fatal(err)
		}
	}
	copied = copyJournal(t, path)
	log = journaltest.Files(copied)[0]
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return o, copied, log, raw, len(strings.TrimRight(string(raw), "\x00"))
}

// The log is cut off at each of its last 900 bytes: the changes before the cut are there.
func TestLogCutOff(t *testing.T) {
	o, copied, log, raw, end := loggedCommits(t)
	seen := map[uint64]int{}
	for cut := end; cut > end-900; cut-- {
		if err := os.WriteFile(log, append(append([]byte(nil), raw[:cut]...), make([]byte, len(raw)-cut)...), 0o600); err != nil {
			t.Fatal(err)
		}
		problems, err := bolt.CheckFile(copied)
		if err != nil || len(problems) > 0 && !cutOff(problems) {
			t.Fatalf("cut at %d: %v, %v", cut, problems, err)
		}
		info, err := bolt.FileInfo(copied)
		if err != nil {
			t.Fatal(err)
		}
		seen[uint64(info.Records)]++
	}
	if seen[o.rev-1] == 0 || seen[o.rev-2] == 0 || seen[o.rev]+seen[o.rev-1]+seen[o.rev-2]+seen[o.rev-3] != 900 {
		t.Errorf("records that are there, and how often: %v", seen)
	}
	s := open(t, copied)
	o.expect(t, s, o.rev-3, o.rev-1)
	if s.Suspect() == nil {
		t.Error("no problem reports the incomplete last record")
	}
}

// A log is damaged in the middle, missing or of another journal: opening reports it and changes nothing.
func TestLogThatDoesNotFit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	s.FailApplying(func(func() error) error { return errors.New("not yet") }) // the records stay in the log
	t.Cleanup(func() { s.FailApplying(nil) })
	o := newOwned(t, s)
	for range 10 {
		if err := o.commit(s); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(t.TempDir(), "journal.db")
	open(t, other)
	for what, spoil := range map[string]func(files []string) error{
		"a record in the middle is damaged": func(files []string) error {
			raw, err := os.ReadFile(files[0])
			if err == nil {
				raw[300] ^= 1
				err = os.WriteFile(files[0], raw, 0o600)
			}
			return err
		},
		"it is gone":     func(files []string) error { return errors.Join(os.Remove(files[0]), os.Remove(files[1])) },
		"a part is gone": func(files []string) error { return os.Remove(files[1]) },
		"it is of another journal": func(files []string) error {
			raw, err := os.ReadFile(journaltest.Files(other)[0])
			return errors.Join(err, os.WriteFile(files[0], raw, 0o600))
		},
	} {
		t.Run(what, func(t *testing.T) {
			copied := copyJournal(t, path)
			if err := spoil(journaltest.Files(copied)); err != nil {
				t.Fatal(err)
			}
			before := contentsOf(t, copied)
			_, opened := bolt.Open(copied)
			_, info := bolt.FileInfo(copied)
			_, check := bolt.CheckFile(copied)
			_, _, compact := bolt.Compact(copied)
			for name, err := range map[string]error{"Open": opened, "FileInfo": info, "CheckFile": check, "Compact": compact} {
				if !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), "log") {
					t.Errorf("%s: %v, want ErrDamaged and a word of the log", name, err)
				}
			}
			if strings.Contains(check.Error(), "pawl store check") {
				t.Errorf("the check suggests itself: %v", check)
			}
			if contentsOf(t, copied) != before {
				t.Error("the files were changed")
			}
		})
	}
}

func contentsOf(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range journaltest.Files(path) {
		raw, err := os.ReadFile(name)
		fmt.Fprintf(&all, "%s %v %x\n", name, errors.Is(err, os.ErrNotExist), raw)
	}
	return all.String()
}

// A closed journal is one file: without its log, and beside a log that a later crash left, it is as it was when it was closed. If a
// journal is missing, no new one is created beside its log, which may hold changes.
func TestClosedJournalIsOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	o := newOwned(t, s)
	if err := errors.Join(o.commit(s), s.Close()); err != nil {
		t.Fatal(err)
	}
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	newOwned(t, s)
	killed := copyJournal(t, path)
	if err := os.WriteFile(killed, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(alone, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"beside a log": killed, "alone": alone} {
		s := open(t, path)
		o.expect(t, s, 2, 2)
		if p, err := s.List(t.Context(), journal.Query{User: "ann", Limit: 9}); err != nil || len(p.Tasks) != 1 {
			t.Errorf("%s: %d tasks, %v; want the one that was there", what, len(p.Tasks), err)
		}
	}
	taken := copyJournal(t, path)
	if err := os.Remove(taken); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Open(taken); err == nil || !strings.Contains(err.Error(), "log") {
		t.Errorf("a new journal beside a log: %v", err)
	}
}

// A damaged meta page makes bbolt use the other one, which may be from before the log was opened: the changes in the log are not lost.
func TestDamagedMetaPageLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	o := newOwned(t, s)
	for round := range 2 {
		for page := range 2 {
			if err := o.commit(s); err != nil {
				t.Fatal(err)
			}
			copied := copyJournal(t, path)
			raw, err := os.ReadFile(copied)
			if err != nil {
				t.Fatal(err)
			}
			raw[page*os.Getpagesize()+40] ^= 1
			if err := os.WriteFile(copied, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			again := open(t, copied)
			o.expect(t, again, o.rev, o.rev)
			if again.Suspect() == nil {
				t.Errorf("round %d: Suspect does not report meta page %d", round, page)
			}
		}
		if err := s.Apply(); err != nil {
			t.Fatal(err)
		}
	}
}

// Changes that cannot be applied stay in the log and are read from there. Once the log is full, changes are refused with the disk's
// error, and accepted again when there is room.
func TestLogThatCannotBeApplied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	s.FailApplying(func(func() error) error { return errDisk })
	n := journaltest.NewTask("ann")
	var ids []string
	var full error
	for full == nil {
		n.ID = journaltest.NewTask("ann").ID
		n.Head.Goal = n.ID + strings.Repeat(" a goal that takes room", 2000) // a payload of its own
		if _, _, full = s.Create(t.Context(), n); full == nil {
			ids = append(ids, n.ID)
		}
		if len(ids) > 2000 {
			t.Fatal("the log takes everything")
		}
	}
	if !errors.Is(full, errDisk) || !strings.Contains(full.Error(), "the log is full") {
		t.Errorf("%v, want the disk's error", full)
	}
	check := func(s *bolt.Store) {
		t.Helper()
		for _, id := range ids {
			if _, err := s.Load(t.Context(), id); err != nil {
				t.Errorf("acknowledged and gone: %v", err)
			}
		}
	}
	check(s)
	if _, err := s.Load(t.Context(), n.ID); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("a refused change is there: %v", err)
	}
	check(open(t, copyJournal(t, path)))
	s.FailApplying(nil)
	if _, _, err := s.Create(t.Context(), n); err != nil {
		t.Errorf("with room again: %v", err)
	}
	ids = append(ids, n.ID)
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(open(t, path))
}

// A sync of the file fails after its pages were written: the file is not written again, and the log holds all changes.
func TestFileThatIsBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	o := newOwned(t, s)
	s.FailApplying(func(commit func() error) error { return errors.Join(commit(), errDisk) })
	if err := s.Apply(); !errors.Is(err, errDisk) {
		t.Fatalf("%v, want the disk's error", err)
	}
	s.FailApplying(nil)
	if err := s.Apply(); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "start pawl again") {
		t.Errorf("%v, want an error that says what to do", err)
	}
	if err := o.commit(s); err != nil {
		t.Error(err)
	}
	o.expect(t, open(t, copyJournal(t, path)), o.rev, o.rev)
	if err := s.Close(); !errors.Is(err, errDisk) {
		t.Errorf("Close: %v, want the disk's error", err)
	}
	o.expect(t, open(t, path), o.rev, o.rev)
}

// Readers and writers continue while the log is applied, and see the same state whether or not it is in the file yet.
func TestReadWhileApplying(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "journal.db"))
	gone, stays := newOwned(t, s), newOwned(t, s)
	ended := follow(gone.n, gone.epoch, 2)
	ended.Checkpoint.Status = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
	if err := errors.Join(s.Commit(t.Context(), ended), s.Apply()); err != nil {
		t.Fatal(err)
	}
	// The file has both tasks. The deletion of gone will be in frozen, later commits of stays in fresh.
	if err := s.Delete(t.Context(), gone.n.ID); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		stays.expect(t, s, stays.rev, stays.rev)
		if _, err := s.Load(t.Context(), gone.n.ID); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("%s: deleted, and %v", when, err)
		}
		p, err := s.List(t.Context(), journal.Query{User: "ann", Limit: 9})
		if err != nil || len(p.Tasks) != 1 || p.Tasks[0].ID != stays.n.ID || p.Tasks[0].Checkpoint.GetRev() != stays.rev {
			t.Errorf("%s: %v, %v", when, p.Tasks, err)
		}
	}
	check("not applied")
	s.FailApplying(func(commit func() error) error {
		if err := stays.commit(s); err != nil {
			t.Error(err)
		}
		check("before the transaction")
		err := commit()
		if err := stays.commit(s); err != nil {
			t.Error(err)
		}
		check("after it")
		return err
	})
	if err := s.Apply(); err != nil {
		t.Fatal(err)
	}
	s.FailApplying(nil)
	check("applied")
	if err := s.Apply(); err != nil {
		t.Fatal(err)
	}
	check("all applied")
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// The log is applied after a delay, and then nothing is written until there are further changes.
func TestAppliedByItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var applied atomic.Int32
		s.FailApplying(func(commit func() error) error {
			applied.Add(1)
			return commit()
		})
		o := newOwned(t, s)
		for range 50 {
			if err := o.commit(s); err != nil {
				t.Fatal(err)
			}
		}
		for want := range int32(3) {
			<-time.After(time.Hour)
			synctest.Wait()
			if n := applied.Load(); n != want+1 {
				t.Errorf("%d transactions in %d hours, want one for each hour in which something was written", n, want+1)
			}
			<-time.After(time.Hour)
			synctest.Wait()
			if err := o.commit(s); err != nil {
				t.Fatal(err)
			}
		}
		s.FailApplying(nil)
	})
}

// A large batch becomes several records, and no change is lost.
func TestLargeBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	var writers sync.WaitGroup
	ids := make([]string, 40)
	for i := range ids {
		writers.Go(func() {
			n := journaltest.NewTask("ann")
			random := make([]byte, 200_000)
			_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(random) // never fails
			n.Head.Goal, ids[i] = hex.EncodeToString(random), n.ID
			if _, _, err := s.Create(context.Background(), n); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	again := open(t, copyJournal(t, path))
	for _, id := range ids {
		if task, err := again.Load(t.Context(), id); err != nil || len(task.Head.GetGoal()) != 400_000 {
			t.Errorf("%v, %v", task.Head.GetRequestId(), err)
		}
	}
}
