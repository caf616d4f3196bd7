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

// sweepAtOnce is how many tasks one transaction deletes: others wait for it.
const sweepAtOnce = 8

// unswept are old tasks that cannot be deleted. They are kept in memory: after a restart each is said once more.
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
	var left []error
	for swept < max {
		if err := ctx.Err(); err != nil {
			return swept, errors.Join(append(left, err)...)
		}
		keys, err := s.endedBefore(endedBefore, min(sweepAtOnce, max-swept))
		if err != nil || len(keys) == 0 {
			return swept, errors.Join(append(left, err)...)
		}
		n, err := s.removeAll(keys)
		if swept += n; err == nil {
			continue
		}
		// One by one: a damaged task keeps no other from going.
		for i, key := range keys {
			n, err := s.removeAll(keys[i : i+1])
			swept += n
			switch {
			case err == nil:
			case errors.Is(err, journal.ErrDamaged):
				s.unswept.add(idOf(key))
				left = append(left, fmt.Errorf("task %s is kept, since it cannot be deleted: %w", idOf(key), err))
			default:
				return swept, errors.Join(append(left, fmt.Errorf("sweeping old tasks: %w", err))...)
			}
		}
	}
	return swept, errors.Join(left...)
}

// removeAll deletes the tasks of some entries of the index of ended tasks, and says how many. What does not fit it is
// damaged.
func (s *Store) removeAll(keys [][]byte) (n int, err error) {
	err = s.c.do(func(b *table, o *op) (reject, err error) {
		n = 0
		for _, key := range keys {
			if b.Get(key) == nil {
				continue // somebody deleted it meanwhile
			}
			reject, err := s.remove(b, o, idOf(key))
			switch {
			case err != nil:
				return nil, err
			case reject != nil:
				// What was deleted before it is part of this transaction.
				return nil, damaged(name(key), reject)
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

// endedBefore returns the entries of tasks that ended before a time, the oldest first.
func (s *Store) endedBefore(t time.Time, limit int) (keys [][]byte, err error) {
	end := timedKey(kindEnded, max(t.UnixNano(), 0), uuid.Nil)
	err = s.view(func(b *table) error {
		c := b.Cursor()
		for k, _ := c.Seek([]byte{kindEnded}); k != nil && bytes.Compare(k, end) < 0 && len(keys) < limit; k, _ = c.Next() {
			if len(k) == 1+8+idSize && !s.unswept.has(idOf(k)) {
				keys = append(keys, bytes.Clone(k))
			}
		}
		return nil
	})
	return keys, err
}
