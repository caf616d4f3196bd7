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
	keys := append(listKeys(id, h), statusKey(user, st.status, id))
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
	st, err := storedState(t, taskKey(id, partCheckpoint))
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
	removeEntries(t, o, head.GetUserSub(), kindTask, id, append(indexKeys(id, head, &st), dueKey(id)))
	o.changes = append(o.changes, dueChange{id: id, gone: true})
	return nil
}

// removeEntries deletes all entries of a user's task or topic, and further keys.
func removeEntries(t *table, o *operation, user string, kind byte, id uuid.UUID, keys [][]byte) {
	prefix := ownerPrefix(kind, id)
	var sums []hash
	size := int64(0)
	for c := t.ascend(prefix); c.next() && hasPrefix(c.key, prefix); {
		if len(c.key) == idSize+2+len(hash{}) && c.key[idSize+1] == partPayload {
			sums = append(sums, hash(c.key[idSize+2:]))
		}
		size += bytesOfEntry(t, c.key, c.value)
		keys = append(keys, bytes.Clone(c.key))
	}
	for _, k := range keys {
		t.Delete(k)
	}
	for _, sum := range sums {
		dropPayload(t, id, sum)
	}
	o.count(user, -size)
}
