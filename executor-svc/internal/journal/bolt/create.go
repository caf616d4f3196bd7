package bolt

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
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
	w, head, err := s.encodeNew(id, n)
	if err != nil {
		return "", false, err
	}
	defer s.release(w)
	existing := uuid.Nil
	err = s.c.do(func(b *table, o *op) (reject, err error) {
		if existing, reject = repeated(b, id, n.Head); reject != nil || existing != uuid.Nil {
			return reject, nil
		}
		if reject, err := admit(b, n.Head.GetUserSub(), n.Admission, true); reject != nil || err != nil {
			return reject, err
		}
		if err := putHead(b, id, n.Head, head); err != nil {
			return nil, err
		}
		return nil, w.put(b, o, nil, false)
	})
	if err != nil {
		return "", false, err
	}
	if existing != uuid.Nil {
		return existing.String(), false, nil
	}
	return id.String(), true, nil
}

// encodeNew encodes a new task. The head is sealed.
func (s *Store) encodeNew(id uuid.UUID, n journal.NewTask) (w *write, head []byte, err error) {
	w = s.newWrite(id, n.Head)
	defer func() {
		if err != nil {
			s.release(w)
			w = nil
		}
	}()
	wire, err := proto.Marshal(n.Head)
	if err != nil {
		return w, nil, invalid("task", err)
	}
	head, payloads := pack.Blob(nil, pack.Head, wire)
	head = pack.Seal(taskKey(id, partHead), head)
	w.addPayloads(payloads)
	seq := uint64(1)
	var last *storagev1.Record
	for _, r := range n.Records {
		if r.FirstSeq != seq || len(r.GetFacts()) == 0 {
			return w, nil, fmt.Errorf("a record begins at seq %d, not at %d, or is empty: %w", r.FirstSeq, seq, journal.ErrInvalid)
		}
		if err := w.encodeRecord(seq, r.Record); err != nil {
			return w, nil, err
		}
		seq, last = seq+uint64(len(r.GetFacts())), r.Record
	}
	if seq != n.Checkpoint.GetLastSeq()+1 {
		return w, nil, fmt.Errorf("the records end at seq %d, not at %d: %w", seq-1, n.Checkpoint.GetLastSeq(), journal.ErrInvalid)
	}
	w.facts.records = append(w.facts.records, n.Records...)
	err = w.encodeCheckpoint(n.Checkpoint, time.Time{}, last)
	if err != nil {
		return w, nil, err
	}
	return w, head, nil
}

// repeated looks for the task that this request made before.
func repeated(b *table, id uuid.UUID, h *storagev1.TaskHead) (existing uuid.UUID, reject error) {
	if h.GetRequestId() != "" {
		k := requestKey(h.GetUserSub(), h.GetRequestId())
		v, err := get(b, k)
		switch {
		case err != nil:
			return uuid.Nil, err
		case len(v) == idSize:
			return uuid.UUID(v), sameRequest(b, uuid.UUID(v), h.GetRequestHash())
		case v != nil:
			return uuid.Nil, damaged(name(k), "it is no task's id")
		}
	}
	if b.Get(taskKey(id, partHead)) == nil {
		return uuid.Nil, nil
	}
	// The same task was submitted twice, because its first answer was an error.
	return id, sameRequest(b, id, h.GetRequestHash())
}

func sameRequest(b *table, id uuid.UUID, hash []byte) error {
	head, err := readHead(b, id)
	if err != nil {
		return err
	}
	if !bytes.Equal(head.GetRequestHash(), hash) {
		return journal.ErrRequestReused
	}
	return nil
}

// putHead stores the sealed head of a new task and its entries in the indexes that never change. A head is stored once, when
// the file holds nothing of its task: table.whole goes by that.
func putHead(b *table, id uuid.UUID, h *storagev1.TaskHead, sealed []byte) error {
	if err := b.Put(taskKey(id, partHead), sealed); err != nil {
		return err
	}
	if r := h.GetRequestId(); r != "" {
		k := requestKey(h.GetUserSub(), r)
		if err := b.Put(k, pack.Seal(k, append(make([]byte, 0, idSize+8), id[:]...))); err != nil {
			return err
		}
	}
	if conv := h.GetConversationId(); conv != "" {
		return b.Put(append(conversationPrefix(h.GetUserSub(), conv), id[:]...), nil)
	}
	return nil
}
