package bolt

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal/pack"
	"pawl.dev/executor-svc/internal/journal/wal"
)

// logState is what the file says of the log in front of it.
type logState struct {
	id wal.ID
	// applied is the newest record whose changes are in the file.
	applied uint64
	// open: there may be records beyond it. Else the file is the whole journal, and no log is read.
	open bool
}

var keyLog = []byte("mlog")

func (s logState) put(b *bbolt.Bucket) error {
	v := binary.BigEndian.AppendUint64(append(make([]byte, 0, 32), s.id[:]...), s.applied)
	flag := byte(0)
	if s.open {
		flag = 1
	}
	return b.Put(keyLog, pack.Seal(keyLog, append(v, flag)))
}

func readLogState(b *table) (s logState, err error) {
	sealed := b.Get(keyLog)
	if sealed == nil {
		return s, damaged("what it says of its log", errMissing)
	}
	v, err := unseal(keyLog, sealed)
	if err != nil {
		return s, err
	}
	if len(v) != len(s.id)+9 {
		return s, damaged(name(keyLog), "it has a wrong size")
	}
	copy(s.id[:], v)
	s.applied, s.open = binary.BigEndian.Uint64(v[len(s.id):]), v[len(v)-1] != 0
	return s, nil
}

// newLogState is that of a file that never had a log.
func newLogState() (s logState) {
	_, _ = rand.Read(s.id[:]) // never fails
	return s
}

// readLog reads what is in the log and not in the file into frozen. It returns why the newest change may be missing.
func (f *file) readLog(s logState) (torn error, err error) {
	into := &content{overlay: newOverlay()}
	err = f.view(func(b *table) error { into.sequence = b.file().Sequence(); return nil })
	if err != nil {
		return nil, err
	}
	found, err := wal.Read(f.path, s.id, s.applied, func(record []byte) error { return replay(record, into) })
	switch {
	case errors.Is(err, wal.ErrMissing):
		return nil, damaged("the journal was not closed, and its newest changes are in its log", err)
	case errors.Is(err, wal.ErrForeign), errors.Is(err, wal.ErrDamaged), errors.Is(err, errRecord):
		return nil, damaged("the journal's newest changes are in its log", err)
	case err != nil:
		return nil, err
	}
	f.frozen, f.upTo, f.sequence = into.overlay, position{record: found.Last, sequence: into.sequence}, into.sequence
	return found.Torn, nil
}

// openToRead opens a journal that no process has open as its log says that it is, and changes nothing. It returns why the
// newest change may be missing.
func openToRead(path string) (f *file, torn error, err error) {
	if f, err = openFile(path, true); err != nil {
		return nil, nil, err
	}
	version, err := schemaOf(f)
	if err == nil && version == schemaVersion { // older ones have no log
		var state logState
		if state, err = f.logState(); err == nil && state.open {
			f.id = state.id
			torn, err = f.readLog(state)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening the journal %s: %w", path, err), f.db.Close())
	}
	return f, torn, nil
}

// openLog brings the file up to what its log says, and begins a new one; begin is part of the transaction. It returns why
// the newest change may be missing.
func (f *file) openLog(begin func(b *table) error) (torn error, err error) {
	state, err := f.logState()
	if err != nil {
		return nil, err
	}
	f.id, f.upTo.record = state.id, state.applied
	create := func() (err error) {
		f.log, err = wal.Create(f.path, f.id, f.upTo.record)
		return err
	}
	apply := func() error { return f.openingTransaction(begin) }
	if state.open {
		if torn, err = f.readLog(state); err != nil {
			return nil, err
		}
		// The log that there is stays as long as what is in it is nowhere else.
		err = inOrder(apply, create)
	} else {
		if err := wal.CheckOwner(f.path, f.id); err != nil {
			return nil, fmt.Errorf("%w; bring it to its journal, or move it away: it may hold changes that are nowhere else", err)
		}
		// Where the file says that it has a log there is one.
		err = inOrder(create, apply)
	}
	if err != nil {
		if f.log != nil {
			err = errors.Join(err, f.log.Close())
		}
		return nil, err
	}
	f.frozen = nil
	go f.applyLoop()
	return torn, nil
}

func inOrder(first, second func() error) error {
	if err := first(); err != nil {
		return err
	}
	return second()
}

// logState reads what the file says of its log. Where one of its two meta pages is not valid, the other one may be older
// than the log.
func (f *file) logState() (s logState, err error) {
	err = f.view(func(b *table) (err error) {
		s, err = readLogState(b)
		return err
	})
	if err == nil && !s.open {
		s.open = metaProblem(f.path) != nil && wal.Size(f.path) > 0
	}
	return s, err
}

func (f *file) openingTransaction(begin func(b *table) error) error {
	return f.direct(func(b *bbolt.Bucket) error {
		if f.frozen != nil {
			if err := putAll(b, f.frozen, f.upTo.sequence); err != nil {
				return err
			}
		}
		if err := begin(&table{base: b}); err != nil {
			return err
		}
		f.sequence = b.Sequence()
		return logState{id: f.id, applied: f.upTo.record, open: true}.put(b)
	}, f.commit)
}

// putAll makes changes in the file.
func putAll(b *bbolt.Bucket, changes *overlay, sequence uint64) (err error) {
	changes.Scan(func(e *entry) bool {
		if e.deleted {
			err = b.Delete(e.key)
		} else {
			err = b.Put(e.key, e.value)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return b.SetSequence(sequence)
}
