package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"pawl.dev/executor-svc/internal/journal"
)

// schemaVersion is written into each file; a file of a newer one is refused.
const schemaVersion = 1

// lockWait is how long opening waits for another process to let go of the file.
const lockWait = 200 * time.Millisecond

var (
	bucket    = []byte("pawl")
	keySchema = []byte("mschema")
)

// Store is a journal in a bbolt file.
type Store struct {
	db *bbolt.DB
	c  *committer
}

var _ journal.Journal = (*Store)(nil)

// Open opens or creates the file. journal.ErrLocked where another process has it.
func Open(path string) (*Store, error) {
	db, err := openFile(path)
	switch {
	case errors.Is(err, errShort):
		return nil, fmt.Errorf("opening %s: the journal is damaged (%w); move it away, or restore it from a backup", path, err)
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("opening %s: %w", path, journal.ErrLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("opening %s: this is not a Pawl journal, or it is damaged (%w); move it away, or restore it from a backup", path, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("opening %s: %w; the folder must be writable", path, err)
	case err != nil:
		return nil, fmt.Errorf("opening the journal %s: %w", path, err)
	}
	if err := prepare(db); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the journal %s: %w", path, err), db.Close())
	}
	return &Store{db: db, c: newCommitter(db)}, nil
}

var errShort = errors.New("the file is shorter than its own index says")

// openFile opens the file and checks that it is whole: pages beyond its end would fault when they are read.
func openFile(path string) (db *bbolt.DB, err error) {
	// Only this goroutine's faults, and only while opening, become panics that can be recovered.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			db, err = nil, fmt.Errorf("%w: %v", errShort, fault)
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return errShort
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// prepare writes the schema's version into a new file and checks it in an old one.
func prepare(db *bbolt.DB) error {
	found := uint64(0)
	err := db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(bucket); b != nil {
			if v := b.Get(keySchema); len(v) == 8 {
				found = binary.BigEndian.Uint64(v)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case found == schemaVersion:
		return nil
	case found > schemaVersion:
		return fmt.Errorf("it has schema version %d, this program knows up to %d; use a newer pawl", found, schemaVersion)
	}
	return db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return b.Put(keySchema, binary.BigEndian.AppendUint64(nil, schemaVersion))
	})
}

// Close implements journal.Journal.
func (s *Store) Close() error {
	s.c.close()
	return s.db.Close()
}

// Check walks the whole file and returns what is inconsistent; for tests and for `pawl store check`.
func (s *Store) Check() error {
	return s.db.View(func(tx *bbolt.Tx) error {
		var all error
		for err := range tx.Check() {
			all = errors.Join(all, err)
		}
		return all
	})
}

func (s *Store) view(fn func(b *bbolt.Bucket) error) error {
	err := s.db.View(func(tx *bbolt.Tx) error { return fn(tx.Bucket(bucket)) })
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return journal.ErrClosed
	}
	return err
}
