package bolt_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/testing/protocmp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store whose file is checked page by page when the test ends.
func open(t *testing.T, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		check, err := bolt.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = check.Close() }()
		if err := check.Check(); err != nil {
			t.Errorf("the file is inconsistent: %v", err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) (journal.Journal, func() journal.Journal) {
		path := filepath.Join(t.TempDir(), "journal.db")
		return open(t, path), func() journal.Journal { return open(t, path) }
	})
}

// killed is a store whose Close first copies its files, as a killed process would leave them; the copy is opened next.
type killed struct {
	*bolt.Store
	t    *testing.T
	path *string
}

func (k killed) Close() error {
	left := copyJournal(k.t, *k.path)
	*k.path = left
	return k.Store.Close()
}

func TestContractWhereProcessesAreKilled(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) (journal.Journal, func() journal.Journal) {
		path := filepath.Join(t.TempDir(), "journal.db")
		next := func() journal.Journal { return killed{Store: open(t, path), t: t, path: &path} }
		return next(), next
	})
}

// The contract holds whenever the log is applied.
func TestContractWhileApplying(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) (journal.Journal, func() journal.Journal) {
		path := filepath.Join(t.TempDir(), "journal.db")
		next := func() journal.Journal {
			s := open(t, path)
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-stop:
						return
					default:
						if err := s.Apply(); err != nil {
							t.Error(err)
							return
						}
						runtime.Gosched()
					}
				}
			}()
			end := sync.OnceFunc(func() { close(stop); <-done })
			t.Cleanup(end)
			return applied{Store: s, end: end}
		}
		return next(), next
	})
}

// applied is a store whose log is applied all the time until it is closed.
type applied struct {
	*bolt.Store
	end func()
}

func (a applied) Close() error {
	a.end()
	return a.Store.Close()
}

func TestSecondOpenerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	open(t, path)
	_, second := bolt.Open(path)
	_, info := bolt.FileInfo(path)
	_, check := bolt.CheckFile(path)
	_, _, compact := bolt.Compact(path)
	for name, err := range map[string]error{"Open": second, "FileInfo": info, "CheckFile": check, "Compact": compact} {
		if !errors.Is(err, journal.ErrLocked) {
			t.Errorf("%s: %v, want ErrLocked", name, err)
		}
	}
}

func TestForeignFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a journal ", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Open(path); err == nil || !strings.Contains(err.Error(), "not a Pawl journal") {
		t.Errorf("foreign file: %v", err)
	}
}

func TestFolderThatIsNotThere(t *testing.T) {
	if _, err := bolt.Open(filepath.Join(t.TempDir(), "none", "journal.db")); err == nil {
		t.Error("no error for a missing folder")
	}
}

// Reading a missing file does not create it.
func TestFileThatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	_, info := bolt.FileInfo(path)
	_, check := bolt.CheckFile(path)
	_, _, compact := bolt.Compact(path)
	for name, err := range map[string]error{"FileInfo": info, "CheckFile": check, "Compact": compact} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want ErrNotExist", name, err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is one now: %v", err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("pawl"))
		return errors.Join(err, b.Put([]byte("mschema"), []byte{0, 0, 0, 0, 0, 0, 0, 99}))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Open(path); err == nil || !strings.Contains(err.Error(), "newer pawl") {
		t.Errorf("%v, want an error that names a newer pawl", err)
	}
}

// A compacted journal has the same content and is smaller, and no other file is left.
func TestCompact(t *testing.T) {
	w := writeJournal(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "journal.db")
	if err := os.WriteFile(path, w.data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour), 5); err != nil || n != 5 {
		t.Fatal(n, err)
	}
	online, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, ".journal-killed"), 0o700); err != nil {
		t.Fatal(err)
	}
	before, after, err := bolt.Compact(path)
	if err != nil || after >= before {
		t.Errorf("%d to %d bytes, %v", before, after, err)
	}
	if is, err := os.Stat(path); err != nil || is.Size() != after || is.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want %d bytes", is, err, after)
	}
	if all, err := os.ReadDir(folder); err != nil || len(all) != 1 {
		t.Errorf("%v, %v; want the journal alone", all, err)
	}
	offline, err := bolt.FileInfo(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(online, offline, protocmp.Transform(), protocmp.IgnoreFields(&executorv1.StoreInfo{}, "size_bytes", "free_bytes", "log_bytes")); d != "" {
		t.Errorf("it is another journal: %s", d)
	}
	if online.Tasks["SUCCESS"] != 10 || online.Tasks["RUNNING"] != 15 || online.Payloads != 1 || online.Topics != 30 || online.Outgoing != 90 || online.Schema != 9 || time.Since(online.Oldest.AsTime()) > time.Hour {
		t.Errorf("%+v", online)
	}
	s = open(t, path)
	left := 0
	for _, id := range w.ids {
		got, err := readAll(t, s, id)
		if err == nil && got != w.reads[id] {
			t.Errorf("task %s is another one", id)
		}
		if err == nil {
			left++
		}
	}
	if left != 25 {
		t.Errorf("%d tasks, want 25", left)
	}
}

func TestDamagedFileIsNotCompacted(t *testing.T) {
	w := writeJournal(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	at := bytes.Index(w.data, []byte("a name"))
	w.data[at] ^= 1
	if err := os.WriteFile(path, w.data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bolt.Compact(path); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("%v, want ErrDamaged", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, w.data) {
		t.Errorf("the file was changed; %v", err)
	}
	problems, err := bolt.CheckFile(path)
	if err != nil || len(problems) == 0 {
		t.Errorf("%v, %v; want a problem", problems, err)
	}
}

// Each kind of inconsistency is found.
func TestCheckFinds(t *testing.T) {
	w := writeJournal(t)
	for what, spoil := range map[string]func(b *bbolt.Bucket) error{
		"a record that is gone":       func(b *bbolt.Bucket) error { return deleteFirst(b, 't', 2) },
		"a checkpoint that is gone":   func(b *bbolt.Bucket) error { return deleteFirst(b, 't', 1) },
		"a head that is gone":         func(b *bbolt.Bucket) error { return deleteFirst(b, 't', 0) },
		"an index of due tasks":       func(b *bbolt.Bucket) error { return deleteFirst(b, 'a', 0xff) },
		"an index of ended tasks":     func(b *bbolt.Bucket) error { return deleteFirst(b, 'e', 0xff) },
		"an index of users":           func(b *bbolt.Bucket) error { return deleteFirst(b, 'u', 0xff) },
		"an index of conversations":   func(b *bbolt.Bucket) error { return deleteFirst(b, 'c', 0xff) },
		"an index of requests":        func(b *bbolt.Bucket) error { return deleteFirst(b, 'r', 0xff) },
		"a payload":                   func(b *bbolt.Bucket) error { return deleteFirst(b, 'p', 0xff) },
		"a reference":                 func(b *bbolt.Bucket) error { return deleteFirst(b, 'q', 0xff) },
		"a task's list of payloads":   func(b *bbolt.Bucket) error { return deleteFirst(b, 't', 5) },
		"settings of a topic":         func(b *bbolt.Bucket) error { return deleteFirst(b, 'o', 0) },
		"a topic's state":             func(b *bbolt.Bucket) error { return deleteFirst(b, 'o', 1) },
		"a topic's record":            func(b *bbolt.Bucket) error { return deleteFirst(b, 'o', 2) },
		"a topic's message":           func(b *bbolt.Bucket) error { return deleteFirst(b, 'o', 3) },
		"a message's id":              func(b *bbolt.Bucket) error { return deleteFirst(b, 'o', 4) },
		"a topic's list of payloads":  func(b *bbolt.Bucket) error { return deleteFirst(b, 'o', 5) },
		"an index of a user's topics": func(b *bbolt.Bucket) error { return deleteFirst(b, 'h', 0xff) },
		"a request for a topic":       func(b *bbolt.Bucket) error { return deleteFirst(b, 'y', 0xff) },
		"an index of archived topics": func(b *bbolt.Bucket) error { return deleteFirst(b, 'v', 0xff) },
		"a message that is too much":  func(b *bbolt.Bucket) error { return copyFirst(b, 'o', 3) },
		"an archived topic too much":  func(b *bbolt.Bucket) error { return copyFirst(b, 'v', 0xff) },
		"an entry of the outbox":      func(b *bbolt.Bucket) error { return b.Put([]byte("x01234567"), []byte("x")) },
		"an entry of no kind":         func(b *bbolt.Bucket) error { return b.Put([]byte("?"), nil) },
		"a value without a checksum":  func(b *bbolt.Bucket) error { return b.Put([]byte("gann\x00a"), []byte("x")) },
		"a task that is indexed only": func(b *bbolt.Bucket) error { return b.Put([]byte("cann\x00c\x000123456789abcdef"), nil) },
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			if err := os.WriteFile(path, w.data, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := bbolt.Open(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(func(tx *bbolt.Tx) error { return spoil(tx.Bucket([]byte("pawl"))) })
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			if problems, err := bolt.CheckFile(path); err != nil || len(problems) == 0 {
				t.Errorf("%v, %v; want a problem", problems, err)
			}
		})
	}
}

// copyFirst stores the first entry of a kind, and of a part of a topic if that is not 0xff, also under another number or time.
func copyFirst(b *bbolt.Bucket, kind, part byte) error {
	c := b.Cursor()
	for k, v := c.Seek([]byte{kind}); k != nil && k[0] == kind; k, v = c.Next() {
		if part == 0xff || k[17] == part {
			k = bytes.Clone(k)
			k[8] ^= 1 // of a time
			if part != 0xff {
				k[8] ^= 1
				k[len(k)-1] ^= 0x40 // of a seq
			}
			return b.Put(k, bytes.Clone(v))
		}
	}
	return errors.New("there is no such entry")
}

// deleteFirst deletes the first entry of a kind, and of a part of a task if that is not 0xff.
func deleteFirst(b *bbolt.Bucket, kind, part byte) error {
	c := b.Cursor()
	for k, _ := c.Seek([]byte{kind}); k != nil && k[0] == kind; k, _ = c.Next() {
		if part == 0xff || k[17] == part {
			return b.Delete(bytes.Clone(k))
		}
	}
	return errors.New("there is no such entry")
}

// Opening takes no longer because of tasks that have ended.
func TestOpeningManyFinishedTasks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	const tasks, atOnce = 2000, 500
	for range tasks / atOnce {
		finishTasks(t, s, atOnce, 1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Processor time does not depend on what else the machine does.
	fastest := time.Hour
	for tries := 0; tries < 10 && fastest > 500*time.Millisecond; tries++ {
		start := cpuTime(t)
		s, err := bolt.Open(path)
		fastest = min(fastest, cpuTime(t)-start)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d tasks: opened in %s", tasks, fastest)
	if fastest > 500*time.Millisecond {
		t.Errorf("opening took %s", fastest)
	}
}
