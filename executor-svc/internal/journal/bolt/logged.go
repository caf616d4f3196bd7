package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/wal"
)

// This file implements the life of a change: commit, log, apply. recover.go reads the log after a crash.
//
//	update   a batch changes a copy of the overlay fresh and is appended to the log; once the record is durable,
//	         the copy replaces fresh, and readers see it
//	view     reads fresh, frozen and the file as of one moment; fresh hides frozen, and frozen hides the file
//	apply    freezes fresh and begins an empty one, writes frozen to the file in one transaction that also
//	         stores the number of the last applied record, and drops frozen; meanwhile the log's other file
//	         takes new records
//	finish   applies everything and marks the log as closed

const (
	// applyBytes is the size of the log at which it is applied at once; fewer bytes are applied after applyDelay. Waiting saves
	// work, because a key that changes again is applied once.
	applyBytes = 2 << 20
	applyDelay = 200 * time.Millisecond
	// maxPending is how many bytes of the log may wait to be applied before commits wait too.
	maxPending = 8 << 20
	// maxRecord is the size at which a record takes no further changes.
	maxRecord = 1 << 20
)

var (
	// errFull: the log must be applied before it takes more records.
	errFull = errors.New("the log is full, and cannot be applied")
	// errSync: after a failed sync it is unknown what is on disk, until a restart reads the disk.
	errSync = errors.New("the disk failed while the journal was made durable; check the disk and start pawl again")
)

// file is a bbolt file with a log in front of it.
type file struct {
	path string
	db   *bbolt.DB
	log  *wal.Log
	id   wal.ID
	// syncLog makes a record durable, commitFile a transaction; tests replace them to simulate disk failures.
	syncLog    func(append func() error) error
	commitFile func(tx *bbolt.Tx) error

	applying   sync.Mutex // held while the file is written; guards fileBroken. Locked before writing
	fileBroken error

	writing   sync.Mutex // held while the log is written; guards log, logBroken and record. Locked before visible
	logBroken error
	record    []byte       // memory for the next record
	pending   atomic.Int64 // bytes of the log that are not frozen

	visible sync.RWMutex // guards fresh, frozen, frozenTo and sequence
	fresh   *overlay
	// frozen is the overlay that is being applied, or nil. frozenTo is the position of the log when it was frozen.
	frozen   *overlay
	frozenTo position
	sequence uint64 // the newest number of NextSequence

	health health

	// wake tells applyLoop that there are changes to apply, full that there are applyBytes. woken is set once wake was sent.
	wake, full chan struct{}
	woken      atomic.Bool
	stop, done chan struct{}
}

// position is the number of a log record, and the newest number of NextSequence when it was written.
type position struct{ record, sequence uint64 }

func newFile(path string, db *bbolt.DB) *file {
	return &file{
		path: path, db: db, fresh: newOverlay(),
		syncLog: func(append func() error) error { return append() }, commitFile: (*bbolt.Tx).Commit,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// update runs write on a batch and makes its changes, if any, durable. It calls publish when readers are about to see them. Only one
// goroutine at a time may call it. After errSync it refuses all changes.
func (f *file) update(write func(t *table) error, publish func()) error {
	if f.pending.Load() >= maxPending {
		if err := f.apply(); err != nil {
			return fmt.Errorf("%w: %w", errFull, err)
		}
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.logBroken != nil {
		return f.logBroken
	}
	b := &batch{record: f.record[:0]}
	err := f.read("changing the journal", func(t *table) error {
		b.overlay, b.sequence, t.batch = f.fresh.Copy(), f.sequence, b
		t.layers[0] = b.overlay
		return write(t)
	})
	if err != nil || len(b.record) == 0 {
		return err
	}
	if b.sequence != f.sequence {
		b.record = binary.AppendUvarint(append(b.record, entrySequence), b.sequence)
	}
	if f.record = b.record; cap(f.record) > maxRecord {
		f.record = nil
	}
	before := f.log.Last()
	if err := f.syncLog(func() error { return f.log.Append(b.record) }); err != nil {
		if f.log.Last() != before { // the record was written
			f.logBroken = fmt.Errorf("%w (%w)", errSync, err)
			err = f.logBroken
		}
		f.health.note(err)
		return err
	}
	f.visible.Lock()
	f.fresh, f.sequence = b.overlay, b.sequence
	publish()
	f.visible.Unlock()
	f.signal(f.log.Size())
	return nil
}

// view runs read with the durable entries as of one moment.
func (f *file) view(read func(t *table) error) error { return f.read("reading the journal", read) }

// read runs do with the journal as it is now. It returns an error if do meets a damaged or missing page of the file.
func (f *file) read(what string, do func(t *table) error) error {
	t, tx, err := f.begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return faultsAsErrors(what, func() error {
		if t.base = tx.Bucket(bucket); t.base == nil {
			return damagedError(what, errMissing)
		}
		return do(t)
	})
}

func (f *file) begin() (*table, *bbolt.Tx, error) {
	// While visible is locked no overlay is dropped: a change that is not in the transaction is in an overlay.
	f.visible.RLock()
	defer f.visible.RUnlock()
	tx, err := f.db.Begin(false)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return nil, nil, journal.ErrClosed
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the journal: %w", err)
	}
	t := &table{layers: make([]*overlay, 1, 2)}
	t.layers[0] = f.fresh
	if f.frozen != nil {
		t.layers = append(t.layers, f.frozen)
	}
	return t, tx, nil
}

// signal tells applyLoop that there are changes to apply, and whether there are applyBytes.
func (f *file) signal(bytes int64) {
	f.pending.Store(bytes)
	to := f.full
	if bytes < applyBytes {
		if f.woken.Swap(true) {
			return
		}
		to = f.wake
	}
	select {
	case to <- struct{}{}:
	default:
	}
}

// applyLoop applies the log at applyBytes or after applyDelay. recover starts it and finish ends it.
func (f *file) applyLoop() {
	defer close(f.done)
	timer := time.NewTimer(applyDelay)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-f.wake:
			timer.Reset(applyDelay)
			continue
		case <-f.full:
		case <-timer.C:
		}
		timer.Stop()
		f.woken.Store(false)
		// If apply fails, the changes stay in the log, and apply is tried again; when the log is full, update returns the error.
		if f.apply() != nil {
			f.woken.Store(true)
			timer.Reset(applyDelay)
		}
	}
}

// apply writes the changes that are in the log now to the file. If the last apply failed, it writes only the changes that were frozen then.
// Readers and commits continue meanwhile.
func (f *file) apply() error {
	f.applying.Lock()
	defer f.applying.Unlock()
	frozen, to := f.freeze()
	if frozen == nil {
		return nil
	}
	err := f.store(frozen, to, true)
	f.health.note(err)
	if err != nil {
		return err
	}
	f.visible.Lock()
	defer f.visible.Unlock()
	f.frozen = nil
	return nil
}

// freeze returns the overlay to apply, or nil if there are no changes. If a failed apply left a frozen overlay, freeze returns that. Else it
// freezes fresh and begins an empty one, whose changes go to the log's other file.
func (f *file) freeze() (*overlay, position) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.visible.Lock()
	defer f.visible.Unlock()
	if f.frozen == nil && f.fresh.Len() > 0 {
		f.frozen, f.frozenTo = f.fresh, position{record: f.log.Last(), sequence: f.sequence}
		f.fresh = newOverlay()
		f.log.Rotate()
		f.pending.Store(0)
	}
	return f.frozen, f.frozenTo
}

// store writes changes to the file and records up to which position the log is applied. Called with applying held.
func (f *file) store(changes *overlay, to position, open bool) error {
	if f.fileBroken != nil {
		return f.fileBroken
	}
	return f.transact(func(b *counted) error {
		if err := putAll(b, changes, to.sequence); err != nil {
			return err
		}
		return logState{id: f.id, applied: to.record, open: open}.put(b)
	})
}

// transact runs write in a transaction of the file. Called with applying held, or before anything else uses the file.
func (f *file) transact(write func(b *counted) error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := f.db.Begin(true)
	if err != nil {
		return err
	}
	id := tx.ID()
	err = faultsAsErrors("writing the journal", func() error {
		b := tx.Bucket(bucket)
		if b == nil {
			return damagedError("writing the journal", errMissing)
		}
		b.FillPercent = fillPercent
		c := newCounted(b)
		if err := errors.Join(write(c), c.store()); err != nil {
			return err
		}
		return f.commitFile(tx)
	})
	if err == nil {
		return nil
	}
	err = errors.Join(err, faultsAsErrors("undoing a change", func() error {
		if err := tx.Rollback(); !errors.Is(err, bolterrors.ErrTxClosed) {
			return err
		}
		return nil
	}))
	if f.committed(id) {
		// The meta page was written but may not be durable, so no further transaction may build on it.
		f.fileBroken = fmt.Errorf("%w (%w)", errSync, err)
		return f.fileBroken
	}
	return err
}

// committed reports whether readers of the file see a transaction.
func (f *file) committed(id int) bool {
	tx, err := f.db.Begin(false)
	if err != nil {
		return false
	}
	defer func() { _ = tx.Rollback() }()
	return tx.ID() >= id
}

// putAll writes changes to the file.
func putAll(b *counted, changes *overlay, sequence uint64) (err error) {
	changes.Scan(func(c *change) bool {
		if c.deleted {
			err = b.Delete(c.key)
		} else {
			err = b.Put(c.key, c.value)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return b.SetSequence(sequence)
}

// finish applies everything, marks the log as closed and closes it, also after an error. There must be no further update.
func (f *file) finish() error {
	close(f.stop)
	<-f.done
	err := f.apply() // if an earlier apply failed, this one applies only the frozen overlay
	if err == nil {
		err = f.apply() // applies fresh then
	}
	f.applying.Lock()
	defer f.applying.Unlock()
	if err == nil {
		err = f.store(newOverlay(), position{record: f.log.Last(), sequence: f.sequence}, false)
	}
	if err != nil {
		err = fmt.Errorf("applying the log; acknowledged changes stay in it: %w", err)
	}
	return errors.Join(err, f.log.Close())
}
