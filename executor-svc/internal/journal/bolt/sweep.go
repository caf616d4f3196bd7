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

const (
	// sweepAtOnce bounds how many tasks or topics are deleted at once, in the batch of a group commit.
	sweepAtOnce = 64
	// sweepHold is how long deletions may hold up the other changes of a batch. What is left then is for a later batch.
	sweepHold = time.Millisecond
)

// errLater is the result of a deletion that was left to a later batch.
var errLater = errors.New("left to a later batch")

// Sweep implements journal.Tasks.
func (s *Store) Sweep(ctx context.Context, endedBefore time.Time, max int) (int, error) {
	return s.sweep(ctx, "task", kindEnded, endedBefore, max, sweep)
}

// SweepTopics implements journal.Topics.
func (s *Store) SweepTopics(ctx context.Context, activeBefore time.Time, max int) (int, error) {
	return s.sweep(ctx, "topic", kindArchived, activeBefore, max, s.sweepTopic)
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
		for i, err := range s.removeAtOnce(keys, remove) {
			switch {
			case err == nil:
				swept++
			case errors.Is(err, errLater):
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

// removeAtOnce calls remove for each key, and returns the results.
func (s *Store) removeAtOnce(keys [][]byte, remove func(*table, *operation, []byte) error) []error {
	results := make([]error, len(keys)) // each key has its own, because a damaged task must not prevent the deletion of the others
	var g sync.WaitGroup
	for i, key := range keys {
		g.Go(func() {
			results[i] = s.c.do(func(t *table, o *operation) error {
				if t.batch.sweeping >= sweepHold {
					return errLater
				}
				began := time.Now()
				defer func() { t.batch.sweeping += time.Since(began) }()
				return remove(t, o, key)
			})
		})
	}
	g.Wait()
	return results
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
