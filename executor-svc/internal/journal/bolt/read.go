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
func readRecords(t *table, id uuid.UUID, after uint64, maxBytes int) (all []journal.Record, err error) {
	read := func(key, value []byte, first uint64) (facts, size int, err error) {
		r := &storagev1.Record{}
		if size, err = readMessage(t, key, value, r); err == nil && first+uint64(len(r.GetFacts())) > after+1 {
			all = append(all, journal.Record{FirstSeq: first, Record: r})
		}
		return len(r.GetFacts()), size, err
	}
	lastSeq := func() (uint64, error) {
		st, err := storedState(t, taskKey(id, partCheckpoint))
		return st.lastSeq, err
	}
	err = scanRecords(t, taskKey(id, partRecord), after, maxBytes, read, lastSeq)
	return all, err
}

// scanRecords calls read for the records that hold facts with a seq greater than after, and perhaps for one before: as many as fit into about maxBytes. It
// returns ErrDamaged if a record is missing before the one of the fact lastSeq; an owner that does not exist has none.
func scanRecords(t *table, prefix []byte, after uint64, maxBytes int,
	read func(key, value []byte, first uint64) (facts, size int, err error), lastSeq func() (uint64, error),
) error {
	c := t.ascend(firstRecordKey(t, prefix, after))
	next := after + 1
	found := false
	for total := 0; c.next() && hasPrefix(c.key, prefix); {
		if total >= maxBytes && found {
			return nil
		}
		first := numberOf(c.key)
		facts, size, err := read(c.key, c.value, first)
		if err != nil {
			return err
		}
		end := first + uint64(facts)
		if end <= after+1 {
			continue
		}
		if first > next || found && first != next {
			return damagedError(name(at(prefix, next)), errMissing)
		}
		next, found = end, true
		total += size
	}
	last, err := lastSeq()
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil
	case err == nil && last >= next:
		err = damagedError(name(at(prefix, next)), errMissing)
	}
	return err
}

// firstRecordKey returns the key of the last record that begins at seq after+1 or before; if there is none, a key from which to seek.
func firstRecordKey(t *table, prefix []byte, after uint64) []byte {
	if after >= math.MaxUint64-1 {
		return at(prefix, after)
	}
	if c := t.descend(at(prefix, after+2)); c.next() && hasPrefix(c.key, prefix) {
		return c.key
	}
	return at(prefix, after+1)
}
