package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Load implements journal.Tasks.
func (s *Store) Load(_ context.Context, taskID string) (*journal.Task, error) {
	return s.task(taskID, true)
}

// Peek implements journal.Tasks.
func (s *Store) Peek(_ context.Context, taskID string) (*journal.Task, error) {
	return s.task(taskID, false)
}

func (s *Store) task(taskID string, inbox bool) (*journal.Task, error) {
	id, err := rawID(taskID)
	if err != nil {
		return nil, err
	}
	var t *journal.Task
	err = s.file.glance(func(b *table) error {
		if t, err = s.read(b, id); err != nil || !inbox {
			return err
		}
		t.Inbox, err = commands(b, id)
		return err
	})
	return t, err
}

// FindRequest implements journal.Tasks.
func (s *Store) FindRequest(_ context.Context, user, requestID string) (*journal.Task, error) {
	var t *journal.Task
	err := s.file.glance(func(b *table) (err error) {
		v, err := get(b, requestKey(user, requestID))
		if err != nil {
			return err
		}
		if len(v) != idSize {
			return journal.ErrNotFound
		}
		if t, err = s.read(b, uuid.UUID(v)); errors.Is(err, journal.ErrNotFound) {
			err = damaged(name(requestKey(user, requestID)), err)
		}
		return err
	})
	return t, err
}

func (s *Store) read(b *table, id uuid.UUID) (*journal.Task, error) {
	t, err := readTask(b, id)
	if err == nil && !state.Ended(t.Checkpoint.GetStatus()) {
		t.Queued = s.due.queued(id)
	}
	return t, err
}

func readTask(b *table, id uuid.UUID) (*journal.Task, error) {
	k := taskKey(id, partCheckpoint)
	hot, err := get(b, k)
	if err != nil {
		return nil, err
	}
	head, err := readHead(b, id)
	if hot == nil {
		if err == nil {
			err = damaged(name(k), errMissing)
		}
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	notes, err := get(b, taskKey(id, partNotes))
	if err != nil {
		return nil, err
	}
	c, err := pack.UnpackCheckpoint(hot, notes, &source{b: b, id: id})
	if err != nil {
		return nil, damaged(name(k), err)
	}
	return &journal.Task{ID: id.String(), Head: head, Checkpoint: c}, nil
}

func readHead(b *table, id uuid.UUID) (*storagev1.TaskHead, error) {
	k := taskKey(id, partHead)
	sealed := b.Get(k)
	if sealed == nil {
		if b.Get(taskKey(id, partCheckpoint)) != nil {
			return nil, damaged(name(k), errMissing)
		}
		return nil, fmt.Errorf("task %s: %w", id, journal.ErrNotFound)
	}
	head := &storagev1.TaskHead{}
	if err := unpack(b, id, k, sealed, head); err != nil {
		return nil, err
	}
	return head, nil
}

// Inbox implements journal.Tasks.
func (s *Store) Inbox(_ context.Context, taskID string) (all []journal.Command, err error) {
	id, err := rawID(taskID)
	if err != nil {
		return nil, err
	}
	if s.due.hasNoCommands(id) && !s.c.isClosed() {
		return nil, nil
	}
	err = s.file.glance(func(b *table) error {
		all, err = commands(b, id)
		return err
	})
	return all, err
}

func commands(b *table, id uuid.UUID) ([]journal.Command, error) {
	var all []journal.Command
	prefix := taskKey(id, partCommand)
	c := b.taskCursor(id)
	for k, sealed := c.Seek(prefix); hasPrefix(k, prefix); k, sealed = c.Next() {
		cmd := &storagev1.Command{}
		if err := unpack(b, id, k, sealed, cmd); err != nil {
			return nil, err
		}
		all = append(all, journal.Command{No: numberOf(k), Command: cmd})
	}
	return all, nil
}

// Records implements journal.Tasks.
func (s *Store) Records(_ context.Context, taskID string, after uint64, maxBytes int) ([]journal.Record, error) {
	id, err := rawID(taskID)
	if err != nil {
		return nil, err
	}
	var all []journal.Record
	err = s.file.glance(func(b *table) error {
		all, err = readRecords(b, id, after, maxBytes)
		return err
	})
	return all, err
}

func readRecords(b *table, id uuid.UUID, after uint64, maxBytes int) ([]journal.Record, error) {
	var all []journal.Record
	prefix := taskKey(id, partRecord)
	c := b.taskCursor(id)
	next := after + 1
	k, sealed := seekRecord(c, prefix, after)
	for size := 0; hasPrefix(k, prefix) && size < maxBytes || len(all) == 0 && hasPrefix(k, prefix); k, sealed = c.Next() {
		r := &storagev1.Record{}
		if err := unpack(b, id, k, sealed, r); err != nil {
			return nil, err
		}
		first := numberOf(k)
		end := first + uint64(len(r.GetFacts()))
		if end <= after+1 {
			continue
		}
		if first > next || len(all) > 0 && first != next {
			return nil, damaged(name(numberedKey(id, partRecord, next)), errMissing)
		}
		next = end
		all = append(all, journal.Record{FirstSeq: first, Record: r})
		size += len(sealed) + large(sealed, r)
	}
	if hasPrefix(k, prefix) {
		return all, nil
	}
	st, err := storedState(b, id)
	if err == nil && st != nil && st.LastSeq >= next {
		err = damaged(name(numberedKey(id, partRecord, next)), errMissing)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// large is about how many bytes of a record are kept beside it.
func large(sealed []byte, r *storagev1.Record) (size int) {
	if len(sealed) == 0 || sealed[0] != 0 {
		return 0
	}
	for _, f := range r.GetFacts() {
		size += len(textOf(f)) + len(f.GetStepOutput())
	}
	return size
}

// seekRecord finds the record that holds seq after+1: it may begin before it.
func seekRecord(c *cursor, prefix []byte, after uint64) (k, v []byte) {
	want := append(bytes.Clone(prefix), numberBytes(after+1)...)
	if k, v = c.Seek(want); k != nil && bytes.Equal(k, want) {
		return k, v
	}
	if k == nil {
		k, v = c.Last()
	} else {
		k, v = c.Prev()
	}
	if hasPrefix(k, prefix) {
		return k, v
	}
	return c.Seek(want)
}
