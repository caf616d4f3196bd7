package bolt

import (
	"bytes"
	"context"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
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

// indexKeys returns the keys of a task outside its own prefix, except those of the index of due tasks and of payloads.
func indexKeys(id uuid.UUID, h *storagev1.TaskHead, st *taskState) [][]byte {
	user := h.GetUserSub()
	keys := [][]byte{userKey(user, id)}
	if conv := h.GetConversationId(); conv != "" {
		keys = append(keys, append(conversationPrefix(user, conv), id[:]...))
	}
	if r := h.GetRequestId(); r != "" {
		keys = append(keys, requestKey(user, r))
	}
	if k := timeKey(st, id); k != nil {
		keys = append(keys, k)
	}
	return keys
}

// remove deletes a task that has ended.
func remove(t *table, o *operation, id uuid.UUID) error {
	st, err := storedState(t, id)
	switch {
	case err != nil:
		return err
	case !state.Ended(st.status):
		return journal.ErrNotEnded
	}
	head, err := readHead(t, id)
	if err != nil {
		return err
	}
	o.user = head.GetUserSub()
	keys := append(indexKeys(id, head, &st), dueKey(id))
	prefix := taskPrefix(nil, id)
	var sums []hash
	for c := t.ascend(prefix); c.next() && hasPrefix(c.key, prefix); {
		if len(c.key) == idSize+2+len(hash{}) && c.key[idSize+1] == partPayload {
			sums = append(sums, hash(c.key[idSize+2:]))
		}
		o.bytes -= bytesOfEntry(t, c.key, c.value)
		keys = append(keys, bytes.Clone(c.key))
	}
	for _, k := range keys {
		t.Delete(k)
	}
	for _, sum := range sums {
		dropPayload(t, id, sum)
	}
	o.changes = append(o.changes, dueChange{id: id, gone: true})
	return nil
}
