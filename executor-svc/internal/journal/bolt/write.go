package bolt

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// write is a transition encoded outside of the transaction, which is what everyone waits for. Its buffers are used again.
type write struct {
	id         uuid.UUID
	user       string
	epoch      uint64
	state      pack.State
	key        []byte
	checkpoint pack.Checkpoint
	hot, notes []byte // sealed
	records    []sealedRecord
	wire       []byte
	index      storagev1.TaskIndex
	facts      facts
	count      uint64 // of facts in records
	payloads   []sealedPayload
	agentID    string
	folded     []uint64
}

type sealedRecord struct{ key, value []byte }

type sealedPayload struct {
	sum   pack.Sum
	value []byte
}

func (s *Store) newWrite(id uuid.UUID, h *storagev1.TaskHead) *write {
	w, ok := s.writes.Get().(*write)
	if !ok {
		w = &write{}
	}
	w.id, w.user, w.agentID, w.epoch, w.count, w.folded = id, h.GetUserSub(), h.GetAgentId(), 0, 0, nil
	w.records, w.payloads = w.records[:0], w.payloads[:0]
	w.facts.s, w.facts.id, w.facts.stored = s, id, false
	return w
}

// keepBuffers bounds what a buffer that is used again may hold on to.
const keepBuffers = 64 << 10

// release gives the buffers back. Nothing of the write may be used after that.
func (s *Store) release(w *write) {
	w.facts.clear()
	if cap(w.wire) <= keepBuffers && cap(w.hot) <= keepBuffers {
		s.writes.Put(w)
	}
}

func invalid(what string, err error) error {
	return fmt.Errorf("encoding the %s: %w: %w", what, journal.ErrInvalid, err)
}

// encodeCheckpoint packs the checkpoint.
func (w *write) encodeCheckpoint(c *storagev1.Checkpoint, deadline time.Time, r *storagev1.Record) error {
	w.state = pack.State{Rev: c.GetRev(), Status: c.GetStatus(), LastSeq: c.GetLastSeq(), Deadline: dueTime(c, deadline, r)}
	if err := w.checkpoint.Pack(c, w.state.Deadline, &w.facts); err != nil {
		return invalid("checkpoint", err)
	}
	w.addPayloads(w.checkpoint.Payloads)
	w.key = append(taskPrefix(w.key[:0], w.id), partCheckpoint)
	w.hot = pack.Seal(w.key, append(w.hot[:0], w.checkpoint.Hot...))
	w.notes = w.notes[:0]
	if len(w.checkpoint.Notes) > 0 {
		w.key[len(w.key)-1] = partNotes
		w.notes = pack.Seal(w.key, append(w.notes, w.checkpoint.Notes...))
	}
	return nil
}

// dueTime is what the indexes by time go by: when the task ended, or else its deadline.
func dueTime(c *storagev1.Checkpoint, deadline time.Time, r *storagev1.Record) int64 {
	if !state.Ended(c.GetStatus()) {
		if deadline.IsZero() {
			return 0
		}
		return max(deadline.UnixNano(), 1)
	}
	for _, t := range []int64{c.GetEndTime(), c.GetUpdateTime(), r.GetTime()} {
		if t > 0 {
			return t
		}
	}
	return 0
}

func (w *write) encodeRecord(firstSeq uint64, r *storagev1.Record) error {
	if len(r.GetFacts()) == 0 {
		return nil
	}
	at := len(w.records)
	if cap(w.records) > at {
		w.records = w.records[:at+1]
	} else {
		w.records = append(w.records, sealedRecord{})
	}
	s := &w.records[at]
	var err error
	if w.wire, err = pack.AppendRecord(w.wire[:0], r); err != nil {
		return invalid("record", err)
	}
	var payloads []pack.Payload
	s.key = append(taskPrefix(s.key[:0], w.id), partRecord)
	s.key = binary.BigEndian.AppendUint64(s.key, firstSeq)
	s.value, payloads = pack.Blob(s.value[:0], pack.Record, w.wire)
	s.value = pack.Seal(s.key, s.value)
	w.addPayloads(payloads)
	w.count += uint64(len(r.GetFacts()))
	return nil
}

func (w *write) addPayloads(all []pack.Payload) {
	for _, p := range all {
		value := append(make([]byte, 0, len(p.Data)+8), p.Data...)
		w.payloads = append(w.payloads, sealedPayload{sum: p.Sum, value: pack.Seal(payloadKey(p.Sum), value)})
	}
}

// putIndex stores what lists filter by.
func (w *write) putIndex(b *table) error {
	var err error
	w.index.Status, w.index.AgentId = w.state.Status, w.agentID
	if w.wire, err = (proto.MarshalOptions{}).MarshalAppend(w.wire[:0], &w.index); err != nil {
		return invalid("index", err)
	}
	k := userKey(w.user, w.id)
	w.wire = pack.Seal(k, w.wire)
	return b.Put(k, w.wire)
}

// put writes the transition. old is what is stored; nil where the task is new. notes says that the stored notes are these.
func (w *write) put(b *table, o *op, old *pack.State, notes bool) error {
	w.key = append(taskPrefix(w.key[:0], w.id), partCheckpoint)
	if err := b.Put(w.key, w.hot); err != nil {
		return err
	}
	if !notes {
		if err := w.putNotes(b, old == nil); err != nil {
			return err
		}
	}
	for _, r := range w.records {
		if err := b.Put(r.key, r.value); err != nil {
			return err
		}
	}
	if err := putPayloads(b, w.id, w.payloads); err != nil {
		return err
	}
	if old == nil || old.Status != w.state.Status {
		if err := w.putIndex(b); err != nil {
			return err
		}
	}
	if err := w.moveTime(b, old); err != nil {
		return err
	}
	return w.putDue(b, o, old)
}

func (w *write) putNotes(b *table, fresh bool) error {
	w.key[len(w.key)-1] = partNotes
	if len(w.notes) > 0 && fresh {
		return b.Put(w.key, w.notes)
	}
	if len(w.notes) > 0 {
		return putSealed(b, w.key, w.notes)
	}
	if fresh || b.Get(w.key) == nil {
		return nil
	}
	return b.Delete(w.key)
}

// timeKey is the entry of a task in the indexes by time; nil where it has none.
func timeKey(s *pack.State, id uuid.UUID) []byte {
	switch {
	case s == nil:
		return nil
	case state.Ended(s.Status):
		return timedKey(kindEnded, s.Deadline, id)
	case s.Deadline != 0:
		return timedKey(kindDeadline, s.Deadline, id)
	}
	return nil
}

// moveTime keeps the indexes of deadlines and ended tasks.
func (w *write) moveTime(b *table, old *pack.State) error {
	if old != nil && old.Deadline == w.state.Deadline && state.Ended(old.Status) == state.Ended(w.state.Status) {
		return nil
	}
	if k := timeKey(old, w.id); k != nil {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	if k := timeKey(&w.state, w.id); k != nil {
		return b.Put(k, pack.Seal(k, append(make([]byte, 0, len(w.user)+4), w.user...)))
	}
	return nil
}

// putDue folds commands in and keeps the index of what is due.
func (w *write) putDue(b *table, o *op, old *pack.State) error {
	for _, no := range w.folded {
		if err := b.Delete(numberedKey(w.id, partCommand, no)); err != nil {
			return err
		}
	}
	if old != nil && old.Status == w.state.Status && len(w.folded) == 0 && old.Deadline == w.state.Deadline {
		return nil
	}
	e := dueEntry{}
	if old != nil {
		var err error
		if e, err = storedDue(b, w.id); err != nil {
			return err
		}
	}
	e.id, e.user, e.runs = w.id, w.user, active(w.state.Status)
	if len(w.folded) > 0 {
		e.commands = hasCommands(b, w.id)
	}
	if !state.Ended(w.state.Status) {
		e.deadline = w.state.Deadline
	}
	return e.put(b, o)
}

// storedDue returns what the index says of a task; nothing where it is not due.
func storedDue(b *table, id uuid.UUID) (dueEntry, error) {
	k := dueKey(id)
	sealed := b.Get(k)
	if sealed == nil {
		return dueEntry{}, nil
	}
	e, err := readDueEntry(k, sealed)
	if err != nil {
		return dueEntry{}, err
	}
	return *e, nil
}

// put stores the entry of a task that is due, or takes it out of the index.
func (e *dueEntry) put(b *table, o *op) (err error) {
	o.changes = append(o.changes, e.change)
	k := dueKey(e.id)
	if !e.runs && !e.commands {
		if e.no == 0 {
			return nil
		}
		return b.Delete(k)
	}
	if e.no == 0 {
		if e.no, err = b.NextSequence(); err != nil {
			return err
		}
		return b.Put(k, pack.Seal(k, e.encode()))
	}
	return put(b, k, e.encode())
}

func active(s executorv1.ExecutorStatus) bool {
	return !state.Ended(s) && s != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
}

func hasCommands(b *table, id uuid.UUID) bool {
	prefix := taskKey(id, partCommand)
	k, _ := b.taskCursor(id).Seek(prefix)
	return hasPrefix(k, prefix)
}
