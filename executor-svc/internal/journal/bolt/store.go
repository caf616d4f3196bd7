package bolt

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal"
)

// schemaVersion is written into each file. Open refuses newer files, and those older than oldestVersion. Version 6 has large payloads in parts, version 7 topics and webhooks,
// version 8 indexes of statuses and agents, version 9 counts.
const schemaVersion = 9

const oldestVersion = 5

var (
	bucket        = []byte("pawl")
	keySchema     = []byte("mschema")
	keyGeneration = []byte("mgeneration")
)

// Store is a journal in a bbolt file.
type Store struct {
	path    string
	file    *file
	c       *committer
	due     *due
	suspect error
	closed  sync.Once
	// large is held while a change with a large payload is encoded and written, because each takes its size in memory again.
	large sync.Mutex
	usage usage
	hooks hooks
	// unswept is the set of the ids of old tasks that cannot be deleted because they are damaged. They are reported again after a restart.
	unswept sync.Map
}

var _ journal.Journal = (*Store)(nil)

// Open opens or creates the file. It returns journal.ErrLocked if another process has it open, and journal.ErrDamaged if it
// cannot be read.
func Open(path string) (*Store, error) {
	f, err := openFile(path, false)
	if err != nil {
		return nil, err
	}
	suspect := metaProblem(path) // before the first transaction writes a meta page
	d, torn, err := start(f)
	if err != nil {
		if errors.Is(err, journal.ErrDamaged) {
			err = fmt.Errorf("%w; run pawl store check, and restore the file from a backup", err)
		}
		return nil, errors.Join(fmt.Errorf("opening the journal %s: %w", path, err), f.db.Close())
	}
	s := &Store{path: path, file: f, due: d, suspect: errors.Join(suspect, torn)}
	if err := f.view(s.hooks.load); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the journal %s: %w", path, err), f.finish(), f.db.Close())
	}
	s.c = newCommitter(f, d, &s.usage, &s.hooks)
	return s, nil
}

// Suspect returns why the newest change may have been missing when the journal was opened, or nil.
func (s *Store) Suspect() error { return s.suspect }

// initialize writes the first entries of a new journal.
func initialize(tx *bbolt.Tx) error {
	created, err := tx.CreateBucketIfNotExists(bucket)
	if err != nil {
		return err
	}
	b := newCounted(created)
	var log logState
	_, _ = rand.Read(log.id[:]) // never fails
	return errors.Join(b.Put(keySchema, numberBytes(schemaVersion)), log.put(b), b.store())
}

// start applies the log, begins a new generation of claims, and reads the tasks that are due. torn is the reason why the newest
// change may be missing.
func start(f *file) (d *due, torn error, err error) {
	if err := checkSchema(f); err != nil {
		return nil, nil, err
	}
	var generation uint64
	err = f.view(func(t *table) (err error) {
		generation, _, err = readNumber(t, keyGeneration)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	generation++
	torn, err = f.recover(func(b *counted) error {
		return errors.Join(b.Put(keyGeneration, withChecksum(keyGeneration, numberBytes(generation))), indexOlder(b), b.Put(keySchema, numberBytes(schemaVersion)), dropOrphans(b))
	})
	if err != nil {
		return nil, nil, err
	}
	d = newDue(generation << 32)
	if err := f.view(d.load); err != nil {
		return nil, nil, errors.Join(err, f.finish())
	}
	return d, torn, nil
}

// checkSchema refuses files of other versions.
func checkSchema(f *file) error {
	return f.view(func(t *table) error {
		v := t.Get(keySchema)
		if len(v) != 8 {
			return damagedError("the schema's version", errMissing)
		}
		switch version := binary.BigEndian.Uint64(v); {
		case version > schemaVersion:
			return fmt.Errorf("it has schema version %d, and this program knows versions up to %d; use a newer pawl", version, schemaVersion)
		case version < oldestVersion:
			return fmt.Errorf("it has schema version %d, which no release wrote; move it away", version)
		}
		return nil
	})
}

func numberBytes(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Close implements journal.Journal.
func (s *Store) Close() error {
	s.c.close()
	var err error
	s.closed.Do(func() { err = errors.Join(s.file.finish(), s.file.db.Close()) })
	return err
}
