package bolt

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal/pack"
)

// MigrateSome makes one transaction of a migration.
func MigrateSome(path string) (done bool, err error) {
	f, err := openFile(path, false)
	if err != nil {
		return false, err
	}
	err = f.direct(func(b *bbolt.Bucket) (err error) {
		done, err = migrateSome(&table{base: b})
		return err
	}, f.commit)
	return done, errors.Join(err, f.db.Close())
}

// FailCommits makes changes fail as fail says, from now on; nil: no more. It may fail before it calls commit, when nothing
// was written, or after it.
func (s *Store) FailCommits(fail func(commit func() error) error) {
	s.file.writing.Lock()
	defer s.file.writing.Unlock()
	s.file.durable = func(do func() error) error { return do() }
	if fail != nil {
		s.file.durable = fail
	}
}

// FailApplying makes applying the log to the file fail, from now on; nil: no more.
func (s *Store) FailApplying(fail func(commit func() error) error) {
	s.file.applying.Lock()
	defer s.file.applying.Unlock()
	s.file.commit = (*bbolt.Tx).Commit
	if fail != nil {
		s.file.commit = func(tx *bbolt.Tx) error { return fail(tx.Commit) }
	}
}

// Apply applies the log to the file.
func (s *Store) Apply() error { return s.file.apply() }

// Logged is the number of the newest record of the log.
func (s *Store) Logged() int {
	s.file.writing.Lock()
	defer s.file.writing.Unlock()
	return int(s.file.log.Last())
}

// ErrUnsure is answered where it is not known whether a change is stored.
var ErrUnsure = errUnsure

// BytesOfTask returns how many bytes of keys and values the newest commit of a task wrote: the checkpoint, and the record
// that begins at or before a seq.
func (s *Store) BytesOfTask(t testing.TB, id string, seq uint64) (size int) {
	err := s.view(func(b *table) error {
		u := uuid.MustParse(id)
		k := taskKey(u, partCheckpoint)
		size = len(k) + len(b.Get(k))
		k, v := seekRecord(b.Cursor(), taskKey(u, partRecord), seq-1)
		size += len(k) + len(v)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// DB is the file.
func (s *Store) DB() *bbolt.DB { return s.file.db }

// KeysOf returns one key of each kind that a task with a command has.
func KeysOf(task, user, request string) [][]byte {
	id := uuid.MustParse(task)
	return [][]byte{
		taskKey(id, partHead), taskKey(id, partCheckpoint), taskKey(id, partNotes), numberedKey(id, partRecord, 1),
		numberedKey(id, partCommand, 2), dueKey(id), userKey(user, id), requestKey(user, request), windowKey(user, 0),
		timedKey(kindDeadline, 5, id),
	}
}

// Seal adds the checksum that fits.
func Seal(key, value []byte) []byte { return pack.Seal(key, append([]byte(nil), value...)) }

// RefillDue reads what is due as opening does.
func (s *Store) RefillDue() error {
	return s.view(func(b *table) error { return fill(newDue(0), b) })
}
