package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
	"pawl.dev/executor-svc/internal/state"
)

// sweepAtOnce is how many tasks one transaction deletes: others wait for it.
const sweepAtOnce = 8

// Delete implements journal.Tasks.
func (s *Store) Delete(ctx context.Context, taskID string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, err := rawID(taskID)
	if err != nil {
		return err
	}
	return s.c.do(func(b *table, o *op) (reject, err error) { return s.remove(b, o, id) })
}

// Sweep implements journal.Tasks.
func (s *Store) Sweep(ctx context.Context, endedBefore time.Time, max int) (int, error) {
	swept := 0
	for swept < max {
		if err := ctx.Err(); err != nil {
			return swept, err
		}
		ids, err := s.endedBefore(endedBefore, min(sweepAtOnce, max-swept))
		if err != nil || len(ids) == 0 {
			return swept, err
		}
		n := 0
		err = s.c.do(func(b *table, o *op) (reject, err error) {
			n = 0
			for _, id := range ids {
				reject, err := s.remove(b, o, id)
				switch {
				case err != nil:
					return nil, err
				case errors.Is(reject, journal.ErrNotFound):
				case reject != nil:
					// What was deleted before it is part of this transaction.
					return nil, reject
				default:
					n++
				}
			}
			return nil, nil
		})
		if err != nil {
			return swept, fmt.Errorf("sweeping old tasks: %w", err)
		}
		swept += n
	}
	return swept, nil
}

// endedBefore returns tasks that ended before a time, the oldest first.
func (s *Store) endedBefore(t time.Time, limit int) (ids []uuid.UUID, err error) {
	end := timedKey(kindEnded, max(t.UnixNano(), 0), uuid.Nil)
	err = s.view(func(b *table) error {
		c := b.Cursor()
		for k, _ := c.Seek([]byte{kindEnded}); k != nil && bytes.Compare(k, end) < 0 && len(ids) < limit; k, _ = c.Next() {
			if len(k) == 1+8+idSize {
				ids = append(ids, idOf(k))
			}
		}
		return nil
	})
	return ids, err
}

// remove deletes a task that has ended.
func (s *Store) remove(b *table, o *op, id uuid.UUID) (reject, err error) {
	st, err := storedState(b, id)
	switch {
	case err != nil:
		return err, nil
	case st == nil:
		return journal.ErrNotFound, nil
	case !state.Ended(st.Status):
		return journal.ErrNotEnded, nil
	}
	head, err := readHead(b, id)
	if err != nil {
		return err, nil
	}
	// A transition of its owner may follow in the same batch.
	s.due.forget(id)
	keys := [][]byte{userKey(head.GetUserSub(), id), dueKey(id), timeKey(st, id)}
	if conv := head.GetConversationId(); conv != "" {
		keys = append(keys, append(conversationPrefix(head.GetUserSub(), conv), id[:]...))
	}
	if r := head.GetRequestId(); r != "" {
		keys = append(keys, requestKey(head.GetUserSub(), r))
	}
	prefix := taskPrefix(nil, id)
	var sums []pack.Sum
	c := b.Cursor()
	for k, _ := c.Seek(prefix); hasPrefix(k, prefix); k, _ = c.Next() {
		if len(k) == idSize+2+len(pack.Sum{}) && k[idSize+1] == partPayload {
			sums = append(sums, pack.Sum(k[idSize+2:]))
		}
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return nil, err
		}
	}
	for _, sum := range sums {
		if err := dropPayload(b, id, sum); err != nil {
			return nil, err
		}
	}
	o.changes = append(o.changes, change{id: id, gone: true})
	return nil, nil
}
