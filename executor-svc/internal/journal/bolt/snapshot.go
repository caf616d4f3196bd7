package bolt

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"pawl.dev/executor-svc/internal/journal"
)

// snapshot is what there is at a moment.
type snapshot struct {
	file *file
	// fresh is read, and must not change meanwhile.
	fresh    *growing
	frozen   *overlay
	sequence uint64
	freezes  uint64
	// tx reads the file; nil until that is asked for something: most of what is read was written just before.
	tx    *bbolt.Tx
	table table
}

// unopened is what a table panics with where the file cannot be read any more as it was at the snapshot's moment.
type unopened struct{ err error }

// errMoved: something came into the file since that is not in the snapshot.
var errMoved = errors.New("the journal has changed since")

// begin returns what there is now; whole says that the file belongs to it from the beginning. Whoever has it reads, once.
func (f *file) begin(whole bool) (s snapshot, err error) {
	// While this is held nothing leaves the overlays: what the file has beyond what it had when they were made is in them.
	f.visible.RLock()
	defer f.visible.RUnlock()
	switch {
	case f.unsure != nil:
		return s, f.unsure
	case f.closed:
		return s, journal.ErrClosed
	}
	s = snapshot{file: f, fresh: f.fresh, frozen: f.frozen, sequence: f.sequence, freezes: f.freezes}
	if whole {
		if s.tx, err = f.beginRead(); err != nil {
			return s, err
		}
	}
	s.fresh.readers.Add(1)
	return s, nil
}

func (f *file) beginRead() (*bbolt.Tx, error) {
	tx, err := f.db.Begin(false)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return nil, journal.ErrClosed
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return tx, nil
}

// open returns the file's entries. As long as nothing was frozen since, what the file has beyond what it had at the
// snapshot's moment is in the snapshot.
func (s *snapshot) open() *bbolt.Bucket {
	if s.tx == nil {
		if err := s.openLate(); err != nil {
			panic(&unopened{err})
		}
	}
	b := s.tx.Bucket(bucket)
	if b == nil {
		panic(&unopened{damaged("reading the journal", errMissing)})
	}
	return b
}

func (s *snapshot) openLate() (err error) {
	s.file.visible.RLock()
	defer s.file.visible.RUnlock()
	if s.file.freezes != s.freezes || s.file.unsure != nil {
		return errMoved
	}
	s.tx, err = s.file.beginRead()
	return err
}

// read ends the snapshot.
func (s *snapshot) read(what string, read func(b *table) error) error {
	defer func() {
		s.fresh.readers.Add(-1)
		if s.tx != nil {
			_ = s.tx.Rollback()
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return intact(what, func() error { return read(s.fill()) })
}

// view reads what is durable.
func (f *file) view(read func(b *table) error) error {
	s, err := f.begin(true)
	if err != nil {
		return err
	}
	return s.read("reading the journal", read)
}

// glance reads what is durable, and is cheap where that was written just before. It may call read a second time.
func (f *file) glance(read func(b *table) error) error {
	s, err := f.begin(false)
	if err != nil {
		return err
	}
	if err = s.read("reading the journal", read); errors.Is(err, errMoved) {
		return f.view(read)
	}
	return err
}

// fill makes a table for reading.
func (s *snapshot) fill() *table {
	t := &s.table
	t.from, t.layers = s, t.both[:0]
	for _, o := range []*overlay{s.fresh.overlay, s.frozen} {
		if o != nil && o.Len() > 0 {
			t.layers = append(t.layers, o)
		}
	}
	return t
}
