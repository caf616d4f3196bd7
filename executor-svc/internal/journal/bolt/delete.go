package bolt

import (
	"bytes"
	"context"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
)

// Delete implements journal.Tasks.
func (s *Store) Delete(ctx context.Context, taskID string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, err := parseID(taskID)
	if err != nil {
		return err
	}
	return s.c.do(func(t *table, o *operation) error { return remove(t, o, id) })
}

// remove deletes a task that has ended.
func remove(t *table, o *operation, id uuid.UUID) error {
	st, err := storedState(t, id)
	switch {
	case err != nil:
		return err
	case st == nil:
		return journal.ErrNotFound
	case !state.Ended(st.status):
		return journal.ErrNotEnded
	}
	head, err := readHead(t, id)
	if err != nil {
		return err
	}
	keys := [][]byte{userKey(head.GetUserSub(), id), dueKey(id), timeKey(st, id)}
	if conv := head.GetConversationId(); conv != "" {
		keys = append(keys, append(conversationPrefix(head.GetUserSub(), conv), id[:]...))
	}
	if r := head.GetRequestId(); r != "" {
		keys = append(keys, requestKey(head.GetUserSub(), r))
	}
	prefix := taskPrefix(nil, id)
	var sums []hash
	for c := t.ascend(prefix); c.next() && hasPrefix(c.key, prefix); {
		if len(c.key) == idSize+2+len(hash{}) && c.key[idSize+1] == partPayload {
			sums = append(sums, hash(c.key[idSize+2:]))
		}
		keys = append(keys, bytes.Clone(c.key))
	}
	for _, k := range keys {
		if err := t.Delete(k); err != nil {
			return err
		}
	}
	for _, sum := range sums {
		if err := dropPayload(t, id, sum); err != nil {
			return err
		}
	}
	o.changes = append(o.changes, dueChange{id: id, gone: true})
	return nil
}
