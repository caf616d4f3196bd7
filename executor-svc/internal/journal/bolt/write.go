package bolt

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// storedTransition is a transition in its stored form. It is encoded before the batch begins, because all commits wait for the
// batch.
type storedTransition struct {
	id         uuid.UUID
	head       *storagev1.TaskHead
	state      taskState
	checkpoint checkedEntry
	records    []checkedEntry
	facts      uint64 // in all records
	payloads   []payload
	applied    []uint64 // numbers of the commands that leave the inbox
}

// checkedEntry is a key and its value with the checksum.
type checkedEntry struct{ key, value []byte }

func invalidError(what string, err error) error {
	return fmt.Errorf("encoding the %s: %w: %w", what, journal.ErrInvalid, err)
}

// encodeTransition encodes a checkpoint and its new records.
func encodeTransition(id uuid.UUID, h *storagev1.TaskHead, c *storagev1.Checkpoint, deadline time.Time, records []journal.Record) (*storedTransition, error) {
	w := &storedTransition{id: id, head: h, state: taskState{rev: c.GetRev(), status: c.GetStatus(), lastSeq: c.GetLastSeq()}}
	var last *storagev1.Record
	for _, r := range records {
		key := numberedKey(id, partRecord, r.FirstSeq)
		value, payloads, err := encode(nil, r.Record)
		if err != nil {
			return nil, invalidError("record", err)
		}
		w.records = append(w.records, checkedEntry{key, withChecksum(key, value)})
		w.payloads = append(w.payloads, payloads...)
		w.facts += uint64(len(r.GetFacts()))
		last = r.Record
	}
	w.state.indexTime = indexTime(c, deadline, last)
	value, payloads, err := encodeCheckpoint(nil, w.state, c)
	if err != nil {
		return nil, invalidError("checkpoint", err)
	}
	key := taskKey(id, partCheckpoint)
	w.checkpoint = checkedEntry{key, withChecksum(key, value)}
	w.payloads = append(w.payloads, payloads...)
	return w, nil
}

// indexTime returns the time for the indexes by time: the end of an ended task, else its deadline, else 0.
func indexTime(c *storagev1.Checkpoint, deadline time.Time, last *storagev1.Record) int64 {
	if !state.Ended(c.GetStatus()) {
		if deadline.IsZero() {
			return 0
		}
		return max(deadline.UnixNano(), 1)
	}
	for _, t := range []int64{c.GetEndTime(), c.GetUpdateTime(), last.GetTime()} {
		if t > 0 {
			return t
		}
	}
	return 0
}

// put stores the transition. old is the stored state; nil for a new task.
func (w *storedTransition) put(t *table, o *operation, old *taskState) error {
	if err := t.Put(w.checkpoint.key, w.checkpoint.value); err != nil {
		return err
	}
	for _, r := range w.records {
		if err := t.Put(r.key, r.value); err != nil {
			return err
		}
	}
	if err := putPayloads(t, kindTask, w.id, w.payloads); err != nil {
		return err
	}
	if old == nil || old.status != w.state.status {
		user := w.head.GetUserSub()
		if old != nil {
			t.Delete(statusKey(user, old.status, w.id))
		}
		if err := t.Put(statusKey(user, w.state.status, w.id), nil); err != nil {
			return err
		}
	}
	if err := w.putTime(t, old); err != nil {
		return err
	}
	return w.putDue(t, o, old)
}

// timeKey returns the key of a task in the indexes by time; nil if it is in none.
func timeKey(s *taskState, id uuid.UUID) []byte {
	switch {
	case s == nil:
		return nil
	case state.Ended(s.status):
		return timedKey(kindEnded, s.indexTime, id)
	case s.indexTime != 0:
		return timedKey(kindDeadline, s.indexTime, id)
	}
	return nil
}

// putTime updates the indexes of deadlines and of ended tasks.
func (w *storedTransition) putTime(t *table, old *taskState) error {
	if old != nil && old.indexTime == w.state.indexTime && state.Ended(old.status) == state.Ended(w.state.status) {
		return nil
	}
	if k := timeKey(old, w.id); k != nil {
		t.Delete(k)
	}
	if k := timeKey(&w.state, w.id); k != nil {
		return put(t, k, []byte(w.head.GetUserSub()))
	}
	return nil
}

// putDue removes the applied commands from the inbox and updates the index of due tasks.
func (w *storedTransition) putDue(t *table, o *operation, old *taskState) error {
	for _, no := range w.applied {
		t.Delete(numberedKey(w.id, partCommand, no))
	}
	if old != nil && old.status == w.state.status && len(w.applied) == 0 && old.indexTime == w.state.indexTime {
		return nil
	}
	e := dueEntry{}
	if old != nil {
		var err error
		if e, err = storedDue(t, w.id); err != nil {
			return err
		}
	}
	e.id, e.user, e.turn, e.runs = w.id, w.head.GetUserSub(), w.head.GetTurn(), isActive(w.state.status)
	if len(w.applied) > 0 {
		e.commands = hasCommands(t, w.id)
	}
	if !state.Ended(w.state.status) {
		e.deadline = w.state.indexTime
	}
	return e.put(t, o)
}

func isActive(s executorv1.ExecutorStatus) bool {
	return !state.Ended(s) && s != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
}

func hasCommands(t *table, id uuid.UUID) bool {
	prefix := taskKey(id, partCommand)
	c := t.ascend(prefix)
	return c.next() && hasPrefix(c.key, prefix)
}
