package bolt

import (
	"bytes"
	"context"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
	"pawl.dev/executor-svc/internal/state"
)

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
	c := b.taskCursor(id)
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
