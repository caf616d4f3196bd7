package bolt

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal/wal"
)

const (
	// applyBytes is how many bytes of the log are applied at once, applyAfter how long what is less waits for more: what is
	// changed again meanwhile is applied once.
	applyBytes = 2 << 20
	applyAfter = 200 * time.Millisecond
	// mostBytes is how many bytes of the log may wait to be applied; changes wait until there are less. As much again may be
	// on its way.
	mostBytes = 8 << 20
	// mostAtOnce is how large a record of the log grows before the rest of a batch gets one of its own.
	mostAtOnce = 1 << 20
	// keepRecord bounds the memory for a record that is used again.
	keepRecord = 256 << 10
)

// errUnsure: the disk failed at the very moment that decides, so that it is not known whether the change is stored.
var errUnsure = errors.New("the disk failed while the change was made durable; it is tried again with the next change")

// errFull: what is in the log must be applied first.
var errFull = errors.New("the log is full, and cannot be applied")

// errBroken: what a failed sync leaves of a file that is written anew is not known.
var errBroken = errors.New("the disk failed while the journal was written; what was acknowledged is in its log: mend the disk and start pawl again")

// file is a bbolt file with a log in front of it. A change is durable, and seen, once it is in the log; it is applied to the
// file later, with others.
type file struct {
	path string
	db   *bbolt.DB
	log  *wal.Log
	id   wal.ID
	// durable makes a record of the log durable, commit a transaction: as they do it themselves but in tests.
	durable func(do func() error) error
	commit  func(tx *bbolt.Tx) error
	// settled is called when a change that update answered with errUnsure is durable after all.
	settled func()

	applying sync.Mutex // held while the file is written; guards broken. Taken before writing
	broken   error
	writing  sync.Mutex // held while the log is written; guards log and what follows. Taken before visible
	memory   memory
	record   []byte
	changes  changes
	logged   atomic.Int64 // bytes of the log that are not frozen yet

	visible sync.RWMutex // guards what follows
	// fresh takes changes; frozen is being applied and takes none; nil where nothing is.
	fresh  *growing
	frozen *overlay
	// upTo is where the log and the sequence stood when frozen was.
	upTo     position
	sequence uint64
	// unsure says why it is not known whether doubtful is stored.
	unsure   error
	doubtful *content
	// freezes counts how often fresh began anew.
	freezes uint64
	closed  bool

	some, much chan struct{} // there is something to apply, and enough
	told       atomic.Bool   // that there is something
	stop, done chan struct{}
}

// position is how far changes go.
type position struct {
	// record of the log, and number that was given out last.
	record, sequence uint64
}

func newFile(path string, db *bbolt.DB) *file {
	return &file{
		path: path, db: db, fresh: &growing{overlay: newOverlay()}, settled: func() {},
		durable: func(do func() error) error { return do() }, commit: (*bbolt.Tx).Commit,
		some: make(chan struct{}, 1), much: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// update makes a batch of changes durable, and calls done once they are, before anyone reads them. Only one goroutine may
// call it.
func (f *file) update(write func(b *table) (changed bool, err error), done func()) error {
	if f.logged.Load() >= mostBytes {
		if err := f.apply(); err != nil {
			return fmt.Errorf("%w: %w", errFull, err)
		}
	}
	if err := f.settle(f.settled); err != nil {
		return err
	}
	err := f.append(write, done)
	if errors.Is(err, errUnsure) && f.settle(done) == nil {
		return nil
	}
	return err
}

// append makes a batch and writes it to the log. After errUnsure nobody knows whether it is there.
func (f *file) append(write func(b *table) (changed bool, err error), done func()) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	next, changed, err := f.build(write)
	if err != nil || !changed {
		return err
	}
	before := f.log.Last()
	err = f.durable(func() error { return f.log.Append(next.record) })
	if err != nil && f.log.Last() == before {
		return err
	}
	f.visible.Lock()
	defer f.visible.Unlock()
	if err != nil {
		f.unsure, f.doubtful = fmt.Errorf("%w: %w", errUnsure, err), &content{f.fresh.Copy(), next.sequence}
		next.changes.putInto(f.doubtful.overlay)
		return f.unsure
	}
	f.fresh, f.sequence = f.fresh.with(next.changes), next.sequence
	done()
	f.tell(f.log.Size())
	return nil
}

// build makes a batch on top of what there is.
func (f *file) build(write func(b *table) (changed bool, err error)) (next *batch, changed bool, err error) {
	s, err := f.begin(false)
	if err != nil {
		return nil, false, err
	}
	next = &batch{changes: f.changes[:0], sequence: s.sequence, was: s.sequence, record: f.record[:0], memory: f.memory}
	err = s.read("changing the journal", func(t *table) (err error) {
		t.batch = next
		changed, err = write(t)
		return err
	})
	next.end()
	f.memory, f.changes = next.memory, next.changes
	if f.record = next.record; cap(f.record) > keepRecord {
		f.record = nil
	}
	return next, changed, err
}

// tell says how much there is to apply.
func (f *file) tell(bytes int64) {
	f.logged.Store(bytes)
	signal := f.much
	if bytes < applyBytes {
		if f.told.Load() || !f.told.CompareAndSwap(false, true) {
			return
		}
		signal = f.some
	}
	select {
	case signal <- struct{}{}:
	default:
	}
}
