package bolt

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
)

// Commit implements journal.Tasks.
func (s *Store) Commit(ctx context.Context, t journal.Transition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := s.encode(t)
	if err != nil {
		return err
	}
	defer s.release(w)
	return s.c.submit(w)
}

// apply implements applier for a transition.
func (w *write) apply(b *table, o *op) (reject, err error) {
	known, owned := w.facts.s.due.begin(w.id, w.epoch)
	o.owned, o.task, o.stores = owned, w.id, w
	var old *pack.State
	if known != nil {
		old = &known.state
	} else if old, err = storedState(b, w.id); err != nil {
		return err, nil
	}
	if reject := w.follows(old, owned); reject != nil {
		return reject, nil
	}
	return nil, w.put(b, o, old, known != nil && bytes.Equal(known.notes, w.notes))
}

// follows says why the transition cannot be made on top of what is stored; nil where it can.
func (w *write) follows(old *pack.State, owned bool) error {
	switch {
	case old == nil:
		return journal.ErrNotFound
	case !owned:
		return fmt.Errorf("epoch %d does not own it: %w", w.epoch, journal.ErrStale)
	case old.Rev+1 != w.state.Rev:
		return fmt.Errorf("rev %d does not follow %d: %w", w.state.Rev, old.Rev, journal.ErrStale)
	case old.LastSeq+w.count != w.state.LastSeq:
		return fmt.Errorf("%d facts do not lead from seq %d to %d: %w", w.count, old.LastSeq, w.state.LastSeq, journal.ErrInvalid)
	}
	return nil
}

// encode encodes a transition.
func (s *Store) encode(t journal.Transition) (*write, error) {
	id, err := rawID(t.TaskID)
	if err != nil {
		return nil, err
	}
	w := s.newWrite(id, t.Head)
	w.epoch, w.folded = t.Epoch, t.Folded
	firstSeq := t.Checkpoint.GetLastSeq() - uint64(len(t.Record.GetFacts())) + 1
	w.facts.stored = true
	w.facts.records = append(w.facts.records, journal.Record{FirstSeq: firstSeq, Record: t.Record})
	err = w.encodeCheckpoint(t.Checkpoint, t.Deadline, t.Record)
	if err == nil {
		err = w.encodeRecord(firstSeq, t.Record)
	}
	if err != nil {
		s.release(w)
		return nil, err
	}
	return w, nil
}

// storedState returns the state of a stored task; nil where there is none.
func storedState(b *table, id uuid.UUID) (*pack.State, error) {
	k := taskKey(id, partCheckpoint)
	v, err := get(b, k)
	if err != nil {
		return nil, err
	}
	if v == nil {
		if b.Get(taskKey(id, partHead)) != nil {
			return nil, damaged(name(k), errMissing)
		}
		return nil, nil
	}
	st, _, err := pack.ReadState(v)
	if err != nil {
		return nil, damaged(name(k), err)
	}
	return &st, nil
}
