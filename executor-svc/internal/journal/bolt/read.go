package bolt

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
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
	err = s.view(func(b *bbolt.Bucket) error {
		if t, err = read(b, id); err != nil || !inbox {
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
	err := s.view(func(b *bbolt.Bucket) error {
		v := b.Get(requestKey(user, requestID))
		if len(v) != 16 {
			return journal.ErrNotFound
		}
		var err error
		t, err = read(b, uuid.UUID(v))
		return err
	})
	return t, err
}

func read(b *bbolt.Bucket, id uuid.UUID) (*journal.Task, error) {
	head, checkpoint := b.Get(taskKey(id, partHead)), b.Get(taskKey(id, partCheckpoint))
	if head == nil || len(checkpoint) < 8 {
		return nil, fmt.Errorf("task %s: %w", id, journal.ErrNotFound)
	}
	t := &journal.Task{ID: id.String(), Head: &storagev1.TaskHead{}, Checkpoint: &storagev1.Checkpoint{}}
	if err := proto.Unmarshal(head, t.Head); err != nil {
		return nil, fmt.Errorf("task %s: its head is damaged: %w", id, err)
	}
	if err := proto.Unmarshal(checkpoint[8:], t.Checkpoint); err != nil {
		return nil, fmt.Errorf("task %s: its checkpoint is damaged: %w", id, err)
	}
	return t, nil
}

// Inbox implements journal.Tasks.
func (s *Store) Inbox(_ context.Context, taskID string) (all []journal.Command, err error) {
	id, err := rawID(taskID)
	if err != nil {
		return nil, err
	}
	err = s.view(func(b *bbolt.Bucket) error {
		all, err = commands(b, id)
		return err
	})
	return all, err
}

func commands(b *bbolt.Bucket, id uuid.UUID) ([]journal.Command, error) {
	var all []journal.Command
	prefix := taskKey(id, partCommand)
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		cmd := &storagev1.Command{}
		if err := proto.Unmarshal(v, cmd); err != nil {
			return nil, fmt.Errorf("task %s: command %d is damaged: %w", id, numberOf(k), err)
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
	err = s.view(func(b *bbolt.Bucket) error {
		prefix := taskKey(id, partRecord)
		c := b.Cursor()
		k, v := seekRecord(c, prefix, after)
		for size := 0; k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			r := &storagev1.Record{}
			if err := proto.Unmarshal(v, r); err != nil {
				return fmt.Errorf("task %s: the record at seq %d is damaged: %w", id, numberOf(k), err)
			}
			if numberOf(k)+uint64(len(r.GetFacts())) <= after+1 {
				continue
			}
			all = append(all, journal.Record{FirstSeq: numberOf(k), Record: r})
			if size += len(v); size >= maxBytes {
				break
			}
		}
		return nil
	})
	return all, err
}

// seekRecord finds the record that holds seq after+1: it may begin before it.
func seekRecord(c *bbolt.Cursor, prefix []byte, after uint64) (k, v []byte) {
	want := append(bytes.Clone(prefix), numberBytes(after+1)...)
	if k, v = c.Seek(want); k != nil && bytes.Equal(k, want) {
		return k, v
	}
	if k == nil {
		k, v = c.Last()
	} else {
		k, v = c.Prev()
	}
	if k != nil && bytes.HasPrefix(k, prefix) {
		return k, v
	}
	return c.Seek(want)
}

// List implements journal.Tasks.
func (s *Store) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	prefix := userPrefix('u', q.User)
	if q.ConversationID != "" {
		prefix = conversationPrefix(q.User, q.ConversationID)
	}
	var page journal.Page
	err := s.view(func(b *bbolt.Bucket) error {
		c := b.Cursor()
		k, err := lastBefore(c, prefix, q.Before)
		for ; err == nil && k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Prev() {
			if err := ctx.Err(); err != nil {
				return err
			}
			id := idOf(k)
			if len(k) != len(prefix)+16 || !indexFits(b, q, id) {
				continue
			}
			t, err := read(b, id)
			if err != nil {
				return err
			}
			if !timeFits(q, t.Head.GetCreateTime()) {
				continue
			}
			if len(page.Tasks) == q.Limit {
				page.More = true
				return nil
			}
			page.Tasks = append(page.Tasks, t)
		}
		return err
	})
	return page, err
}

// lastBefore moves to the newest entry, or to the newest one older than a task.
func lastBefore(c *bbolt.Cursor, prefix []byte, before string) ([]byte, error) {
	end := append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 17)...)
	if before != "" {
		id, err := rawID(before)
		if err != nil {
			return nil, err
		}
		end = append(bytes.Clone(prefix), id[:]...)
	}
	if k, _ := c.Seek(end); k == nil {
		k, _ = c.Last()
		return k, nil
	}
	k, _ := c.Prev()
	return k, nil
}

func indexFits(b *bbolt.Bucket, q journal.Query, id uuid.UUID) bool {
	if len(q.Statuses) == 0 && q.AgentID == "" {
		return true
	}
	i := &storagev1.TaskIndex{}
	if err := proto.Unmarshal(b.Get(append(userPrefix('u', q.User), id[:]...)), i); err != nil {
		return false
	}
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, i.GetStatus())) &&
		(q.AgentID == "" || q.AgentID == i.GetAgentId())
}

func timeFits(q journal.Query, created int64) bool {
	return (q.CreatedAfter.IsZero() || created >= q.CreatedAfter.UnixNano()) &&
		(q.CreatedBefore.IsZero() || created < q.CreatedBefore.UnixNano())
}

// Runnable implements journal.Tasks.
func (s *Store) Runnable(context.Context) ([]string, error) {
	var ids []string
	err := s.view(func(b *bbolt.Bucket) error {
		c := b.Cursor()
		for k, _ := c.Seek([]byte{'a'}); k != nil && k[0] == 'a'; k, _ = c.Next() {
			if len(k) == 17 {
				ids = append(ids, idOf(k).String())
			}
		}
		return nil
	})
	return ids, err
}
