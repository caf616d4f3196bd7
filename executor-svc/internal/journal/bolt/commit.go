package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Commit implements journal.Tasks.
func (s *Store) Commit(ctx context.Context, t journal.Transition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, err := parseID(t.TaskID)
	if err != nil {
		return err
	}
	var records []journal.Record
	if n := uint64(len(t.Record.GetFacts())); n > 0 {
		records = []journal.Record{{FirstSeq: t.Checkpoint.GetLastSeq() - n + 1, Record: t.Record}}
	}
	defer s.lockLarge(t.Record, t.Post)()
	w, err := encodeTransition(id, t.Head, t.Checkpoint, t.Deadline, records)
	if err != nil {
		return err
	}
	w.applied = t.Applied
	if err := s.storeLarge(w.payloads); err != nil {
		return err
	}
	p, err := s.preparePost(t.Post)
	if err != nil {
		return err
	}
	return s.c.do(func(b *table, o *operation) error {
		o.owned, o.task = s.due.beginWrite(id, t.Epoch), id
		old, err := storedState(b, w.checkpoint.key)
		if err != nil {
			return err
		}
		if err := w.checkFollows(old, o.owned, t.Epoch); err != nil {
			return err
		}
		post, err := p.ofTask(b)
		if err != nil {
			return err
		}
		if s.usage.counts() {
			o.count(t.Head.GetUserSub(), w.newBytes(b))
		}
		return errors.Join(w.put(b, o, &old), post.put(b, o, s), s.hooks.putTaskEvents(b, o, t.TaskID, t.Head, records))
	})
}

// checkFollows returns an error if the transition does not follow the stored state or its writer does not own the task.
func (w *storedTransition) checkFollows(old taskState, owned bool, epoch uint64) error {
	switch {
	case !owned:
		return fmt.Errorf("epoch %d does not own the task: %w", epoch, journal.ErrStale)
	case old.rev+1 != w.state.rev:
		return fmt.Errorf("rev %d does not follow %d: %w", w.state.rev, old.rev, journal.ErrStale)
	case old.lastSeq+w.facts != w.state.lastSeq:
		return fmt.Errorf("%d facts do not lead from seq %d to %d: %w", w.facts, old.lastSeq, w.state.lastSeq, journal.ErrInvalid)
	}
	return nil
}

// storedState returns the state of a stored task by the key of its checkpoint. ErrNotFound.
func storedState(t *table, k []byte) (taskState, error) {
	v, err := get(t, k)
	switch {
	case err != nil:
		return taskState{}, err
	case v == nil && t.Get(taskKey(ownerOf(k), partHead)) == nil:
		return taskState{}, journal.ErrNotFound
	case v == nil:
		return taskState{}, damagedError(name(k), errMissing)
	}
	st, _, err := readState(v)
	if err != nil {
		return taskState{}, damagedError(name(k), err)
	}
	return st, nil
}

// Create implements journal.Tasks.
func (s *Store) Create(ctx context.Context, n journal.NewTask) (string, bool, error) {
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	id, err := parseID(n.ID)
	if err != nil {
		return "", false, err
	}
	if err := checkRecords(n); err != nil {
		return "", false, err
	}
	full := s.admitBytes(n.Head.GetUserSub(), n.Admission.Bytes)
	w, err := encodeTransition(id, n.Head, n.Checkpoint, time.Time{}, n.Records)
	if err != nil {
		return "", false, err
	}
	head, payloads, err := encode(nil, n.Head)
	if err != nil {
		return "", false, invalidError("task", err)
	}
	w.payloads = append(w.payloads, payloads...)
	if full == nil { // else the request is refused, unless it is repeated
		if err := s.storeLarge(w.payloads); err != nil {
			return "", false, err
		}
	}
	existing := uuid.Nil
	err = s.c.do(func(t *table, o *operation) (err error) {
		if existing, err = findRepeated(t, id, n.Head); err != nil || existing != uuid.Nil {
			return err
		}
		if full != nil {
			return full
		}
		if err := s.putNew(t, o, w, n, head); err != nil {
			return err
		}
		return noteDispatched(t, n)
	})
	if err != nil {
		return "", false, err
	}
	if existing != uuid.Nil {
		return existing.String(), false, nil
	}
	return id.String(), true, nil
}

// checkRecords returns an error if the records of a new task do not hold the facts 1 … LastSeq.
func checkRecords(n journal.NewTask) error {
	seq := uint64(1)
	for _, r := range n.Records {
		if r.FirstSeq != seq || len(r.GetFacts()) == 0 {
			return fmt.Errorf("a record begins at seq %d, not at %d, or is empty: %w", r.FirstSeq, seq, journal.ErrInvalid)
		}
		seq += uint64(len(r.GetFacts()))
	}
	if seq != n.Checkpoint.GetLastSeq()+1 {
		return fmt.Errorf("the records end at seq %d, not at %d: %w", seq-1, n.Checkpoint.GetLastSeq(), journal.ErrInvalid)
	}
	return nil
}

// putNew stores a new task with its encoded head, if its user may make a further request.
func (s *Store) putNew(t *table, o *operation, w *storedTransition, n journal.NewTask, head []byte) error {
	if err := admit(t, kindWindow, n.Head.GetUserSub(), n.Admission, true); err != nil {
		return err
	}
	if err := putHead(t, w.id, n.Head, head); err != nil {
		return err
	}
	if err := errors.Join(w.put(t, o, nil), s.hooks.putTaskEvents(t, o, n.ID, n.Head, n.Records)); err != nil || !s.usage.counts() {
		return err
	}
	o.count(n.Head.GetUserSub(), bytesOf(t, kindTask, w.id))
	return nil
}

// findRepeated returns the task that this request created earlier, or uuid.Nil.
func findRepeated(t *table, id uuid.UUID, h *storagev1.TaskHead) (existing uuid.UUID, err error) {
	if h.GetRequestId() != "" {
		k := requestKey(h.GetUserSub(), h.GetRequestId())
		v, err := get(t, k)
		switch {
		case err != nil:
			return uuid.Nil, err
		case len(v) == idSize:
			return uuid.UUID(v), checkSameRequest(t, uuid.UUID(v), h.GetRequestHash())
		case v != nil:
			return uuid.Nil, damagedError(name(k), "it is not a task id")
		}
	}
	if t.Get(taskKey(id, partHead)) == nil {
		return uuid.Nil, nil
	}
	// The caller repeats a Create that was stored although it returned an error.
	return id, checkSameRequest(t, id, h.GetRequestHash())
}

func checkSameRequest(t *table, id uuid.UUID, hash []byte) error {
	head, err := readHead(t, id)
	if err != nil {
		return err
	}
	if !bytes.Equal(head.GetRequestHash(), hash) {
		return journal.ErrRequestReused
	}
	return nil
}

// putHead stores the head of a new task, and its index entries that never change.
func putHead(t *table, id uuid.UUID, h *storagev1.TaskHead, encoded []byte) error {
	if err := put(t, taskKey(id, partHead), encoded); err != nil {
		return err
	}
	if r := h.GetRequestId(); r != "" {
		if err := put(t, requestKey(h.GetUserSub(), r), id[:]); err != nil {
			return err
		}
	}
	for _, k := range listKeys(id, h) {
		if err := t.Put(k, nil); err != nil {
			return err
		}
	}
	return nil
}

// listKeys returns the keys of a task in the indexes for lists, except that by status.
func listKeys(id uuid.UUID, h *storagev1.TaskHead) [][]byte {
	user := h.GetUserSub()
	keys := [][]byte{userKey(user, id)}
	if conv := h.GetConversationId(); conv != "" {
		keys = append(keys, append(conversationPrefix(user, conv), id[:]...))
	}
	if agent := h.GetAgentId(); agent != "" {
		keys = append(keys, append(agentTasksPrefix(user, agent), id[:]...))
	}
	return keys
}

// Send implements journal.Tasks.
func (s *Store) Send(ctx context.Context, taskID string, c *storagev1.Command) (no uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	id, err := parseID(taskID)
	if err != nil {
		return 0, err
	}
	command, payloads, err := encode(nil, c)
	if err != nil {
		return 0, invalidError("command", err)
	}
	err = s.c.do(func(t *table, o *operation) error {
		st, err := storedState(t, taskKey(id, partCheckpoint))
		if err != nil {
			return err
		}
		e, err := storedDue(t, id)
		if err != nil {
			return err
		}
		if e.seq == 0 {
			head, err := readHead(t, id)
			if err != nil {
				return err
			}
			e.id, e.user, e.turn = id, head.GetUserSub(), head.GetTurn()
		}
		// The sequence is stored: numbers grow across restarts, and none is used twice.
		no = t.NextSequence()
		if err := put(t, numberedKey(id, partCommand, no), command); err != nil {
			return err
		}
		if err := putPayloads(t, kindTask, id, payloads); err != nil {
			return err
		}
		e.commands, e.sent = true, 1
		if !state.Ended(st.status) {
			e.deadline = st.indexTime
		}
		return e.put(t, o)
	})
	return no, err
}
