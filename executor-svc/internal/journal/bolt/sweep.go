package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
)

// sweepAtOnce bounds how many tasks one change deletes, because other changes wait for it.
const sweepAtOnce = 8

// unswept is the set of old tasks that cannot be deleted because they are damaged. It is in memory only, so they are reported again
// after a restart.
type unswept struct {
	mu  sync.Mutex // guards ids
	ids map[uuid.UUID]bool
}

func (u *unswept) has(id uuid.UUID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ids[id]
}

func (u *unswept) add(id uuid.UUID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = map[uuid.UUID]bool{}
	}
	u.ids[id] = true
}

// Sweep implements journal.Tasks.
func (s *Store) Sweep(ctx context.Context, endedBefore time.Time, max int) (int, error) {
	swept := 0
	var failures []error
	for swept < max {
		if err := ctx.Err(); err != nil {
			return swept, errors.Join(append(failures, err)...)
		}
		keys, err := s.endedBefore(endedBefore, min(sweepAtOnce, max-swept))
		if err != nil || len(keys) == 0 {
			return swept, errors.Join(append(failures, err)...)
		}
		n, err := s.removeAll(keys)
		if swept += n; err == nil {
			continue
		}
		// One by one, because a damaged task must not prevent the deletion of the others.
		for i, key := range keys {
			n, err := s.removeAll(keys[i : i+1])
			swept += n
			switch {
			case err == nil:
			case errors.Is(err, journal.ErrDamaged):
				s.unswept.add(idOf(key))
				failures = append(failures, fmt.Errorf("task %s cannot be deleted and is kept: %w", idOf(key), err))
			default:
				return swept, errors.Join(append(failures, fmt.Errorf("deleting old tasks: %w", err))...)
			}
		}
	}
	return swept, errors.Join(failures...)
}

// removeAll deletes the tasks of entries of the index of ended tasks, and returns how many. A task that does not match its entry
// is damaged.
func (s *Store) removeAll(keys [][]byte) (n int, err error) {
	err = s.c.do(func(t *table, o *operation) (rejection, err error) {
		n = 0
		for _, key := range keys {
			if t.Get(key) == nil {
				continue // it was deleted meanwhile
			}
			rejection, err := s.remove(t, o, idOf(key))
			switch {
			case err != nil:
				return nil, err
			case rejection != nil:
				// An error, because tasks before it are already deleted in this batch.
				return nil, damagedError(name(key), rejection)
			}
			n++
		}
		return nil, nil
	})
	if err != nil {
		n = 0
	}
	return n, err
}

// endedBefore returns the index entries of tasks that ended before a time, oldest first.
func (s *Store) endedBefore(t time.Time, limit int) (keys [][]byte, err error) {
	end := timedKey(kindEnded, max(t.UnixNano(), 0), uuid.Nil)
	err = s.file.view(func(t *table) error {
		for c := t.ascend([]byte{kindEnded}); len(keys) < limit && c.next() && bytes.Compare(c.key, end) < 0; {
			if len(c.key) == 1+8+idSize && !s.unswept.has(idOf(c.key)) {
				keys = append(keys, bytes.Clone(c.key))
			}
		}
		return nil
	})
	return keys, err
}
