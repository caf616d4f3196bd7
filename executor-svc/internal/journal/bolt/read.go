package bolt

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Load implements journal.Tasks.
func (s *Store) Load(_ context.Context, taskID string) (task *journal.Task, err error) {
	id, err := parseID(taskID)
	if err != nil {
		return nil, err
	}
	err = s.file.view(func(t *table) error {
		task, err = s.read(t, id)
		return err
	})
	return task, err
}

// FindRequest implements journal.Tasks.
func (s *Store) FindRequest(_ context.Context, user, requestID string) (task *journal.Task, err error) {
	err = s.file.view(func(t *table) error {
		v, err := get(t, requestKey(user, requestID))
		if err != nil {
			return err
		}
		if len(v) != idSize {
			return journal.ErrNotFound
		}
		if task, err = s.read(t, uuid.UUID(v)); errors.Is(err, journal.ErrNotFound) {
			err = damagedError(name(requestKey(user, requestID)), err)
		}
		return err
	})
	return task, err
}

func (s *Store) read(t *table, id uuid.UUID) (*journal.Task, error) {
	task, err := readTask(t, id)
	if err == nil && !state.Ended(task.Checkpoint.GetStatus()) {
		task.Queued = s.due.queued(id)
	}
	return task, err
}

func readTask(t *table, id uuid.UUID) (*journal.Task, error) {
	k := taskKey(id, partCheckpoint)
	value, err := get(t, k)
	if err != nil {
		return nil, err
	}
	head, err := readHead(t, id)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, damagedError(name(k), errMissing)
	}
	c := &storagev1.Checkpoint{}
	_, rest, err := readState(value)
	if err == nil {
		_, err = decode(rest, c, t.appendPayload)
	}
	if err != nil {
		return nil, damagedError(name(k), err)
	}
	return &journal.Task{ID: id.String(), Head: head, Checkpoint: c}, nil
}

// readHead returns the head of a task; ErrNotFound if there is no such task.
func readHead(t *table, id uuid.UUID) (*storagev1.TaskHead, error) {
	k := taskKey(id, partHead)
	stored := t.Get(k)
	if stored == nil {
		if t.Get(taskKey(id, partCheckpoint)) != nil {
			return nil, damagedError(name(k), errMissing)
		}
		return nil, fmt.Errorf("task %s: %w", id, journal.ErrNotFound)
	}
	head := &storagev1.TaskHead{}
	_, err := readMessage(t, k, stored, head)
	return head, err
}

// Inbox implements journal.Tasks.
func (s *Store) Inbox(_ context.Context, taskID string) (all []journal.Command, err error) {
	id, err := parseID(taskID)
	if err != nil {
		return nil, err
	}
	if s.due.inboxKnownEmpty(id) && !s.c.isClosed() {
		return nil, nil
	}
	err = s.file.view(func(t *table) error {
		all, err = commands(t, id)
		return err
	})
	return all, err
}

func commands(t *table, id uuid.UUID) ([]journal.Command, error) {
	var all []journal.Command
	prefix := taskKey(id, partCommand)
	for c := t.ascend(prefix); c.next() && hasPrefix(c.key, prefix); {
		cmd := &storagev1.Command{}
		if _, err := readMessage(t, c.key, c.value, cmd); err != nil {
			return nil, err
		}
		all = append(all, journal.Command{No: numberOf(c.key), Command: cmd})
	}
	return all, nil
}

// Records implements journal.Tasks.
func (s *Store) Records(_ context.Context, taskID string, after uint64, maxBytes int) (all []journal.Record, err error) {
	id, err := parseID(taskID)
	if err != nil {
		return nil, err
	}
	err = s.file.view(func(t *table) error {
		all, err = readRecords(t, id, after, maxBytes)
		return err
	})
	return all, err
}

// readRecords returns the records that hold facts with a seq greater than after, as Records does. A missing record is ErrDamaged.
func readRecords(t *table, id uuid.UUID, after uint64, maxBytes int) ([]journal.Record, error) {
	var all []journal.Record
	prefix := taskKey(id, partRecord)
	c := t.ascend(firstRecordKey(t, id, after))
	next := after + 1
	var more bool
	for size := 0; ; {
		if more = c.next() && hasPrefix(c.key, prefix); !more || size >= maxBytes && len(all) > 0 {
			break
		}
		r := &storagev1.Record{}
		n, err := readMessage(t, c.key, c.value, r)
		if err != nil {
			return nil, err
		}
		first := numberOf(c.key)
		end := first + uint64(len(r.GetFacts()))
		if end <= after+1 {
			continue
		}
		if first > next || len(all) > 0 && first != next {
			return nil, damagedError(name(numberedKey(id, partRecord, next)), errMissing)
		}
		next = end
		all = append(all, journal.Record{FirstSeq: first, Record: r})
		size += n
	}
	if more {
		return all, nil
	}
	st, err := storedState(t, id)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return all, nil
	case err == nil && st.lastSeq >= next:
		err = damagedError(name(numberedKey(id, partRecord, next)), errMissing)
	}
	return all, err
}

// firstRecordKey returns the key of the last record that begins at seq after+1 or before; if there is none, a key from which to seek.
func firstRecordKey(t *table, id uuid.UUID, after uint64) []byte {
	if after >= math.MaxUint64-1 {
		return numberedKey(id, partRecord, after)
	}
	if c := t.descend(numberedKey(id, partRecord, after+2)); c.next() && hasPrefix(c.key, taskKey(id, partRecord)) {
		return c.key
	}
	return numberedKey(id, partRecord, after+1)
}
