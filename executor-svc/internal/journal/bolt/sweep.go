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

// sweepAtOnce bounds how many tasks or topics are deleted at once, because other changes share their batch.
const sweepAtOnce = 16

// Sweep implements journal.Tasks.
func (s *Store) Sweep(ctx context.Context, endedBefore time.Time, max int) (int, error) {
	return s.sweep(ctx, "task", kindEnded, endedBefore, max, sweep)
}

// SweepTopics implements journal.Topics.
func (s *Store) SweepTopics(ctx context.Context, activeBefore time.Time, max int) (int, error) {
	return s.sweep(ctx, "topic", kindArchived, activeBefore, max, sweepTopic)
}

// sweep calls remove for at most max entries of an index by time that are before a time, oldest first, and returns how many were removed.
func (s *Store) sweep(ctx context.Context, what string, kind byte, before time.Time, max int, remove func(*table, *operation, []byte) error) (int, error) {
	swept := 0
	var failures []error
	for swept < max {
		if err := ctx.Err(); err != nil {
			return swept, errors.Join(append(failures, err)...)
		}
		keys, err := s.entriesBefore(kind, before, min(sweepAtOnce, max-swept))
		if err != nil || len(keys) == 0 {
			return swept, errors.Join(append(failures, err)...)
		}
		results := make([]error, len(keys)) // each task has its own, because a damaged one must not prevent the deletion of the others
		var g sync.WaitGroup
		for i, key := range keys {
			g.Go(func() { results[i] = s.c.do(func(t *table, o *operation) error { return remove(t, o, key) }) })
		}
		g.Wait()
		for i, err := range results {
			switch {
			case err == nil:
				swept++
			case errors.Is(err, journal.ErrDamaged):
				s.unswept.Store(idOf(keys[i]), true)
				failures = append(failures, fmt.Errorf("%s %s cannot be deleted and is kept: %w", what, idOf(keys[i]), err))
			default:
				return swept, errors.Join(append(failures, fmt.Errorf("deleting old %ss: %w", what, err))...)
			}
		}
	}
	return swept, errors.Join(failures...)
}

// sweep deletes the task of an entry of the index of ended tasks. A task that does not match its entry is damaged.
func sweep(t *table, o *operation, key []byte) error {
	if t.Get(key) == nil {
		return nil // it was deleted meanwhile
	}
	err := remove(t, o, idOf(key))
	if errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrNotEnded) {
		return damagedError(name(key), err)
	}
	return err
}

// entriesBefore returns the entries of an index by time that are before a time, oldest first.
func (s *Store) entriesBefore(kind byte, t time.Time, limit int) (keys [][]byte, err error) {
	end := timedKey(kind, max(t.UnixNano(), 0), uuid.Nil)
	err = s.file.view(func(t *table) error {
		for c := t.ascend([]byte{kind}); len(keys) < limit && c.next() && bytes.Compare(c.key, end) < 0; {
			if len(c.key) != 1+8+idSize {
				continue
			}
			if _, damaged := s.unswept.Load(idOf(c.key)); !damaged {
				keys = append(keys, bytes.Clone(c.key))
			}
		}
		return nil
	})
	return keys, err
}
