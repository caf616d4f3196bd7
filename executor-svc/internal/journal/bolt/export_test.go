package bolt

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
)

// MigrateSome makes one transaction of a migration.
func MigrateSome(path string) (done bool, err error) {
	f, err := openFile(path, false)
	if err != nil {
		return false, err
	}
	err = f.update(func(b *bbolt.Bucket) (bool, error) {
		done, err = migrateSome(b)
		return true, err
	}, func() {})
	return done, errors.Join(err, f.db.Close())
}

// FailCommits makes transactions fail as fail says, from now on; nil: no more. before is called with a transaction that
// was not made durable yet, after with the error of one that was.
func (s *Store) FailCommits(fail func(commit func() error) error) {
	s.file.visible.Lock()
	defer s.file.visible.Unlock()
	s.file.commit = (*bbolt.Tx).Commit
	if fail != nil {
		s.file.commit = func(tx *bbolt.Tx) error { return fail(tx.Commit) }
	}
}

// ErrUnsure is answered where it is not known whether a change is stored.
var ErrUnsure = errUnsure

// BytesOfTask returns how many bytes of keys and values the newest commit of a task wrote: the checkpoint, and the record
// that begins at or before a seq.
func (s *Store) BytesOfTask(t testing.TB, id string, seq uint64) (size int) {
	err := s.view(func(b *bbolt.Bucket) error {
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
