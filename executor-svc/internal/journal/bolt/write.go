package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Create implements journal.Tasks.
func (s *Store) Create(ctx context.Context, n journal.NewTask) (string, bool, error) {
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	id, err := rawID(n.ID)
	if err != nil {
		return "", false, err
	}
	head, err := proto.Marshal(n.Head)
	if err != nil {
		return "", false, fmt.Errorf("encoding the task: %w: %w", journal.ErrInvalid, err)
	}
	w, err := encode(journal.Transition{TaskID: n.ID, Head: n.Head, Checkpoint: n.Checkpoint, Record: n.Record})
	if err != nil {
		return "", false, err
	}
	existing := uuid.Nil
	err = s.c.do(func(b *bbolt.Bucket) (reject, err error) {
		existing = uuid.Nil
		user, request := n.Head.GetUserSub(), n.Head.GetRequestId()
		if request != "" {
			if v := b.Get(requestKey(user, request)); len(v) == 16 {
				existing = uuid.UUID(v)
				return sameRequest(b, existing, n.Head.GetRequestHash()), nil
			}
			if err := b.Put(requestKey(user, request), id[:]); err != nil {
				return nil, err
			}
		}
		if err := b.Put(taskKey(id, partHead), head); err != nil {
			return nil, err
		}
		if conv := n.Head.GetConversationId(); conv != "" {
			if err := b.Put(append(conversationPrefix(user, conv), id[:]...), nil); err != nil {
				return nil, err
			}
		}
		return nil, w.put(b)
	})
	if err != nil {
		return "", false, err
	}
	if existing != uuid.Nil {
		return existing.String(), false, nil
	}
	return id.String(), true, nil
}

func sameRequest(b *bbolt.Bucket, id uuid.UUID, hash []byte) error {
	head := &storagev1.TaskHead{}
	if err := proto.Unmarshal(b.Get(taskKey(id, partHead)), head); err != nil {
		return fmt.Errorf("reading task %s: %w", id, err)
	}
	if !bytes.Equal(head.GetRequestHash(), hash) {
		return journal.ErrRequestReused
	}
	return nil
}

// Commit implements journal.Tasks.
func (s *Store) Commit(ctx context.Context, t journal.Transition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := encode(t)
	if err != nil {
		return err
	}
	return s.c.do(func(b *bbolt.Bucket) (reject, err error) {
		stored := b.Get(taskKey(w.id, partCheckpoint))
		switch {
		case len(stored) < 8:
			return journal.ErrNotFound, nil
		case binary.BigEndian.Uint64(stored)+1 != t.Checkpoint.GetRev():
			return journal.ErrStale, nil
		}
		return nil, w.put(b)
	})
}

// write is a transition encoded outside of the transaction, which is what everyone waits for.
type write struct {
	id         uuid.UUID
	user       string
	status     executorv1.ExecutorStatus
	checkpoint []byte
	firstSeq   uint64
	record     []byte
	index      []byte
	folded     []uint64
}

func encode(t journal.Transition) (*write, error) {
	id, err := rawID(t.TaskID)
	if err != nil {
		return nil, err
	}
	w := &write{id: id, user: t.Head.GetUserSub(), status: t.Checkpoint.GetStatus(), folded: t.Folded}
	w.checkpoint = binary.BigEndian.AppendUint64(nil, t.Checkpoint.GetRev())
	if w.checkpoint, err = (proto.MarshalOptions{}).MarshalAppend(w.checkpoint, t.Checkpoint); err != nil {
		return nil, fmt.Errorf("encoding the checkpoint: %w: %w", journal.ErrInvalid, err)
	}
	if n := uint64(len(t.Record.GetFacts())); n > 0 {
		w.firstSeq = t.Checkpoint.GetLastSeq() - n + 1
		if w.record, err = proto.Marshal(t.Record); err != nil {
			return nil, fmt.Errorf("encoding the record: %w: %w", journal.ErrInvalid, err)
		}
	}
	w.index, err = proto.Marshal(&storagev1.TaskIndex{
		Status: w.status, AgentId: t.Head.GetAgentId(), ConversationId: t.Head.GetConversationId(),
	})
	return w, err
}

func (w *write) put(b *bbolt.Bucket) error {
	if err := b.Put(taskKey(w.id, partCheckpoint), w.checkpoint); err != nil {
		return err
	}
	if w.record != nil {
		if err := b.Put(numberedKey(w.id, partRecord, w.firstSeq), w.record); err != nil {
			return err
		}
	}
	if err := putChanged(b, append(userPrefix('u', w.user), w.id[:]...), w.index); err != nil {
		return err
	}
	left, err := w.fold(b)
	if err != nil {
		return err
	}
	if left || (!state.Ended(w.status) && w.status != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING) {
		return putChanged(b, runnableKey(w.id), []byte{1})
	}
	return b.Delete(runnableKey(w.id))
}

// fold removes the commands that are now part of the checkpoint, and says whether some are left.
func (w *write) fold(b *bbolt.Bucket) (left bool, err error) {
	for _, no := range w.folded {
		if err := b.Delete(numberedKey(w.id, partCommand, no)); err != nil {
			return false, err
		}
	}
	prefix := taskKey(w.id, partCommand)
	k, _ := b.Cursor().Seek(prefix)
	return k != nil && bytes.HasPrefix(k, prefix), nil
}

// putChanged spares the write where nothing changed.
func putChanged(b *bbolt.Bucket, key, value []byte) error {
	if old := b.Get(key); old != nil && bytes.Equal(old, value) {
		return nil
	}
	return b.Put(key, value)
}

// Send implements journal.Tasks.
func (s *Store) Send(ctx context.Context, taskID string, c *storagev1.Command) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	id, err := rawID(taskID)
	if err != nil {
		return 0, err
	}
	value, err := proto.Marshal(c)
	if err != nil {
		return 0, fmt.Errorf("encoding the command: %w: %w", journal.ErrInvalid, err)
	}
	var no uint64
	err = s.c.do(func(b *bbolt.Bucket) (reject, err error) {
		if b.Get(taskKey(id, partCheckpoint)) == nil {
			return journal.ErrNotFound, nil
		}
		// The bucket's sequence is part of the file: numbers grow across restarts, and never come twice.
		if no, err = b.NextSequence(); err != nil {
			return nil, err
		}
		if err := b.Put(numberedKey(id, partCommand, no), value); err != nil {
			return nil, err
		}
		return nil, putChanged(b, runnableKey(id), []byte{1})
	})
	return no, err
}
