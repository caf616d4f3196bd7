package bolt

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// applyLoop applies what is in the log: when there is enough, or after a while. It is started by openLog and ended by finish.
func (f *file) applyLoop() {
	defer close(f.done)
	timer := time.NewTimer(applyAfter)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-f.some:
			timer.Reset(applyAfter)
			continue
		case <-f.much:
		case <-timer.C:
		}
		timer.Stop()
		f.told.Store(false)
		// What cannot be applied stays in the log, and is tried again; once that is full, changes are refused with this error.
		if f.apply() != nil {
			f.told.Store(true)
			timer.Reset(applyAfter)
		}
	}
}

// apply moves what is in the log now into the file. Changes go on meanwhile.
func (f *file) apply() error {
	f.applying.Lock()
	defer f.applying.Unlock()
	frozen, upTo, err := f.freeze()
	if err != nil || frozen == nil {
		return err
	}
	if err := f.store(frozen, upTo, true, f.commit); err != nil {
		return err
	}
	f.visible.Lock()
	defer f.visible.Unlock()
	f.frozen = nil
	return nil
}

// freeze takes what there is to apply, and lets the log go on in its other file. What could not be applied last time comes
// first.
func (f *file) freeze() (*overlay, position, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.visible.Lock()
	defer f.visible.Unlock()
	switch {
	case f.unsure != nil:
		return nil, position{}, f.unsure
	case f.frozen == nil && f.fresh.Len() > 0:
		f.frozen, f.upTo = f.fresh.overlay, position{record: f.log.Last(), sequence: f.sequence}
		f.startOver()
	}
	return f.frozen, f.upTo, nil
}

// startOver makes an empty overlay, and lets the log go on in its other file. writing and visible are held.
func (f *file) startOver() {
	f.fresh = &growing{overlay: newOverlay()}
	f.freezes++
	f.log.Rotate()
	f.logged.Store(0)
}

// store writes changes to the file, and that the log up to there is applied. applying is held.
func (f *file) store(changes *overlay, upTo position, open bool, commit func(*bbolt.Tx) error) error {
	if f.broken != nil {
		return f.broken
	}
	return f.direct(func(b *bbolt.Bucket) error {
		if err := putAll(b, changes, upTo.sequence); err != nil {
			return err
		}
		return logState{id: f.id, applied: upTo.record, open: open}.put(b)
	}, commit)
}

// direct writes a transaction.
func (f *file) direct(write func(b *bbolt.Bucket) error, commit func(*bbolt.Tx) error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := f.db.Begin(true)
	if err != nil {
		return err
	}
	id := tx.ID()
	err = intact("writing the journal", func() error {
		b := tx.Bucket(bucket)
		if b == nil {
			return damaged("writing the journal", errMissing)
		}
		b.FillPercent = fillPercent
		return write(b)
	})
	if err != nil {
		return errors.Join(err, rollback(tx))
	}
	if err := intact("writing the journal", func() error { return commit(tx) }); err != nil {
		err = errors.Join(err, rollback(tx))
		if f.shows(id) {
			// It can be read, but may not be durable; nor may what the next transaction stands on.
			f.broken = fmt.Errorf("%w (%w)", errBroken, err)
			return f.broken
		}
		return err
	}
	return nil
}

func rollback(tx *bbolt.Tx) error {
	return intact("undoing a change", func() error {
		if err := tx.Rollback(); !errors.Is(err, bolterrors.ErrTxClosed) {
			return err
		}
		return nil
	})
}

// shows says whether readers would see a transaction.
func (f *file) shows(id int) bool {
	tx, err := f.db.Begin(false)
	if err != nil {
		return false
	}
	defer func() { _ = tx.Rollback() }()
	return tx.ID() >= id
}

// settle makes durable what could not be in the log: in the file itself, whose own syncs say whether it is. It calls done
// before anyone reads it.
func (f *file) settle(done func()) error {
	f.visible.RLock()
	unsure := f.unsure
	f.visible.RUnlock()
	if unsure == nil {
		return nil
	}
	f.applying.Lock()
	defer f.applying.Unlock()
	f.writing.Lock()
	defer f.writing.Unlock()
	// Nobody changes these while writing is held.
	upTo := position{record: f.log.Last(), sequence: f.doubtful.sequence}
	commit := func(tx *bbolt.Tx) error { return f.durable(func() error { return f.commit(tx) }) }
	if f.frozen != nil {
		if err := f.store(f.frozen, f.upTo, true, commit); err != nil {
			return unsure
		}
	}
	if err := f.store(f.doubtful.overlay, upTo, true, commit); err != nil {
		return unsure
	}
	f.visible.Lock()
	defer f.visible.Unlock()
	f.frozen, f.unsure, f.doubtful, f.sequence = nil, nil, nil, upTo.sequence
	f.startOver()
	done()
	return nil
}

// finish applies all there is and says in the file that the log is of no use any more. Nobody may write any more.
func (f *file) finish() error {
	close(f.stop)
	<-f.done
	err := f.settle(f.settled)
	f.applying.Lock()
	defer f.applying.Unlock()
	if err == nil && f.frozen != nil { // it could not be applied
		err = f.store(f.frozen, f.upTo, true, f.commit)
	}
	if err == nil {
		err = f.store(f.fresh.overlay, position{record: f.log.Last(), sequence: f.sequence}, false, f.commit)
	}
	if err != nil {
		err = fmt.Errorf("applying the log; what was acknowledged stays in it: %w", err)
	}
	return errors.Join(err, f.log.Close())
}

// close says to readers that there is nothing to read any more.
func (f *file) close() {
	f.visible.Lock()
	defer f.visible.Unlock()
	f.closed = true
}
