package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal"
)

// schemaVersion is written into each file; a file of a newer one is refused, one of an older one is brought up to it.
const schemaVersion = 3

var (
	bucket        = []byte("pawl")
	keySchema     = []byte("mschema")
	keyGeneration = []byte("mgeneration")
)

// Store is a journal in a bbolt file.
type Store struct {
	path string
	file *file
	c    *committer
	due  *due
	// writes holds buffers that are used again.
	writes sync.Pool
	// suspect is what was wrong with the journal when it was opened.
	suspect error
	closed  sync.Once
	// unswept holds old tasks that cannot be deleted, because they are damaged.
	unswept unswept
}

var _ journal.Journal = (*Store)(nil)

// Open opens or creates the file. journal.ErrLocked where another process has it, journal.ErrDamaged where it cannot be
// read.
func Open(path string) (*Store, error) {
	f, err := openFile(path, false)
	if err != nil {
		return nil, err
	}
	suspect := metaProblem(path) // before the first change writes a meta page
	d, torn, err := prepare(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the journal %s: %w", path, err), f.db.Close())
	}
	return &Store{path: path, file: f, c: newCommitter(f, d), due: d, suspect: errors.Join(suspect, torn)}, nil
}

// Suspect says why the newest change may be missing from the journal as it was opened; nil where nothing says so.
func (s *Store) Suspect() error { return s.suspect }

// begin makes a new file a journal.
func begin(tx *bbolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists(bucket)
	if err != nil {
		return err
	}
	return errors.Join(b.Put(keySchema, numberBytes(schemaVersion)), newLogState().put(b))
}

// prepare brings a file up to the schema and to its log, begins a new generation of claims, and finds out what is due. It
// returns why the newest change may be missing.
func prepare(f *file) (d *due, torn error, err error) {
	version, err := schemaOf(f)
	switch {
	case err != nil:
		return nil, nil, err
	case version > schemaVersion:
		return nil, nil, fmt.Errorf("it has schema version %d, this program knows up to %d; use a newer pawl", version, schemaVersion)
	case version == 0:
		return nil, nil, damaged("the schema's version", errMissing)
	case version < schemaVersion:
		if err := migrate(f, version); err != nil {
			return nil, nil, fmt.Errorf("bringing it from schema version %d to %d: %w", version, schemaVersion, err)
		}
	}
	generation := uint64(0)
	torn, err = f.openLog(func(b *table) error {
		v, err := get(b, keyGeneration)
		if err != nil {
			return err
		}
		if len(v) == 8 {
			generation = binary.BigEndian.Uint64(v)
		}
		generation++
		return put(b, keyGeneration, numberBytes(generation))
	})
	if err != nil {
		return nil, nil, err
	}
	d = newDue(generation << 32)
	if err := f.view(func(b *table) error { return fill(d, b) }); err != nil {
		return nil, nil, errors.Join(err, f.finish())
	}
	return d, torn, nil
}

// schemaOf returns the schema's version; 0 where there is none.
func schemaOf(f *file) (version uint64, err error) {
	err = f.view(func(b *table) error {
		if v := b.Get(keySchema); len(v) == 8 {
			version = binary.BigEndian.Uint64(v)
		}
		return nil
	})
	return version, err
}

// fill tells what is due, in the order in which it became so, and what has a deadline.
func fill(d *due, b *table) error {
	entries := map[uuid.UUID]*dueEntry{}
	var order []*dueEntry
	c := b.Cursor()
	for k, sealed := c.Seek([]byte{kindDue}); k != nil && k[0] == kindDue; k, sealed = c.Next() {
		e, err := readDueEntry(k, sealed)
		if err != nil {
			return err
		}
		order = append(order, e)
		entries[e.id] = e
	}
	for k, sealed := c.Seek([]byte{kindDeadline}); k != nil && k[0] == kindDeadline; k, sealed = c.Next() {
		user, err := unseal(k, sealed)
		if err != nil {
			return err
		}
		if len(k) != 1+8+idSize {
			return damaged(name(k), "its key has a wrong size")
		}
		id := idOf(k)
		e := entries[id]
		if e == nil {
			e = &dueEntry{change: change{id: id, user: string(user)}}
			order = append(order, e)
		}
		e.deadline = timeOf(k)
	}
	slices.SortStableFunc(order, func(a, b *dueEntry) int {
		switch {
		case a.no < b.no:
			return -1
		case a.no > b.no:
			return 1
		}
		return 0
	})
	for _, e := range order {
		if e.commands {
			e.sent = 1
		}
		d.apply(e.change)
	}
	return nil
}

// dueEntry is what the index says of a task that is due.
type dueEntry struct {
	change
	// no orders tasks by when they became due.
	no uint64
}

const (
	flagRuns     = 1
	flagCommands = 2
)

func (e *dueEntry) encode() []byte {
	v := binary.AppendUvarint(make([]byte, 0, 16+len(e.user)), e.no)
	flags := byte(0)
	if e.runs {
		flags |= flagRuns
	}
	if e.commands {
		flags |= flagCommands
	}
	return append(append(v, flags), e.user...)
}

func readDueEntry(key, sealed []byte) (*dueEntry, error) {
	v, err := unseal(key, sealed)
	if err != nil {
		return nil, err
	}
	no, n := binary.Uvarint(v)
	if n <= 0 || len(v) == n || len(key) != 1+idSize {
		return nil, damaged(name(key), "it is too short")
	}
	return &dueEntry{no: no, change: change{
		id: idOf(key), runs: v[n]&flagRuns != 0, commands: v[n]&flagCommands != 0, user: string(v[n+1:]),
	}}, nil
}

// Close implements journal.Journal.
func (s *Store) Close() error {
	s.c.close()
	var err error
	s.closed.Do(func() {
		err = s.file.finish()
		s.file.close()
	})
	return errors.Join(err, s.file.db.Close())
}

func (s *Store) view(read func(b *table) error) error { return s.file.view(read) }
