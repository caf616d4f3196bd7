package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"

	"pawl.dev/executor-svc/internal/journal/wal"
)

// logState is the file's entry about its log.
type logState struct {
	id wal.ID
	// applied is the number of the newest record whose changes are in the file.
	applied uint64
	// open reports that the log may have further records. Otherwise the file is the whole journal, and the log is not read.
	open bool
}

var keyLog = []byte("mlog")

func (s logState) put(b *counted) error {
	v := binary.BigEndian.AppendUint64(append(make([]byte, 0, 32), s.id[:]...), s.applied)
	flag := byte(0)
	if s.open {
		flag = 1
	}
	return b.Put(keyLog, withChecksum(keyLog, append(v, flag)))
}

// logState reads the file's entry about its log. If one of the file's two meta pages is not valid, the other page may be older than the
// opening of the log; then a log that exists counts as open.
func (f *file) logState() (s logState, err error) {
	err = f.view(func(t *table) error {
		v, err := get(t, keyLog)
		if err != nil {
			return err
		}
		if len(v) != len(s.id)+9 {
			return damagedError(name(keyLog), errMissing)
		}
		copy(s.id[:], v)
		s.applied, s.open = binary.BigEndian.Uint64(v[len(s.id):]), v[len(v)-1] != 0
		return nil
	})
	if err == nil && !s.open {
		s.open = metaProblem(f.path) != nil && wal.Size(f.path) > 0
	}
	return s, err
}

// recover applies the records of the log that are not in the file, begins a new log, and starts applyLoop. prepare runs in the
// transaction that applies the log. torn is the reason why the newest change may be missing.
func (f *file) recover(prepare func(b *counted) error) (torn error, err error) {
	state, err := f.logState()
	if err != nil {
		return nil, err
	}
	f.id, f.frozenTo.record = state.id, state.applied
	create := func() (err error) {
		f.log, err = wal.Create(f.path, f.id, f.frozenTo.record)
		return err
	}
	apply := func() error {
		return f.transact(func(b *counted) error {
			if f.frozen != nil {
				if err := putAll(b, f.frozen, f.frozenTo.sequence); err != nil {
					return err
				}
			}
			f.sequence = b.Sequence()
			return errors.Join(prepare(b), logState{id: f.id, applied: f.frozenTo.record, open: true}.put(b))
		})
	}
	steps := []func() error{create, apply} // the new log exists before logState says that it is open
	if state.open {
		if torn, err = f.readLog(state); err != nil {
			return nil, err
		}
		steps = []func() error{apply, create} // the old log stays until its records are in the file
	} else if err := wal.CheckOwner(f.path, f.id); err != nil {
		return nil, fmt.Errorf("%w; move the log back to its journal, or move it away; it may hold changes that are stored nowhere else", err)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			if f.log != nil {
				err = errors.Join(err, f.log.Close())
			}
			return nil, err
		}
	}
	f.frozen = nil
	go f.applyLoop()
	return torn, nil
}

// readLog reads the records of the log that are not in the file into frozen. torn is the reason why the newest change may be missing.
func (f *file) readLog(s logState) (torn error, err error) {
	into, sequence := newOverlay(), uint64(0)
	if err := f.view(func(t *table) error { sequence = t.base.Sequence(); return nil }); err != nil {
		return nil, err
	}
	found, err := wal.Read(f.path, s.id, s.applied, func(record []byte) error { return replay(record, into, &sequence) })
	switch {
	case errors.Is(err, wal.ErrMissing):
		return nil, damagedError("the journal was not closed, so its newest changes are in its log", err)
	case errors.Is(err, wal.ErrForeign), errors.Is(err, wal.ErrDamaged), errors.Is(err, errRecord):
		return nil, damagedError("the journal's newest changes are in its log", err)
	case err != nil:
		return nil, err
	}
	f.frozen, f.frozenTo, f.sequence = into, position{record: found.Last, sequence: sequence}, sequence
	return found.Torn, nil
}

// openToRead opens a journal that no process has open, reads its log, and changes nothing. torn is the reason why the newest change
// may be missing.
func openToRead(path string) (f *file, torn error, err error) {
	if f, err = openFile(path, true); err != nil {
		return nil, nil, err
	}
	err = checkSchema(f)
	if err == nil {
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
