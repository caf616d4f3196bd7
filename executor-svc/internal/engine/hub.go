package engine

import (
	"sync"

	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/feed"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// tailRecords and tailBytes bound the records of a watched task in memory; older ones are read from the journal.
	tailRecords = 256
	tailBytes   = 1 << 20
)

// hub passes committed records to watchers from memory.
type hub struct{ feeds feed.Feeds[watched] }

// watched is a watched task.
type watched struct {
	mu sync.Mutex // guards the fields below
	// task has the newest committed checkpoint; nil until the first commit after the feed was made.
	task *journal.Task
	tail feed.Tail[*executorv1.ExecutorEvent]
}

type eventRecord = feed.Record[*executorv1.ExecutorEvent]

func newEventRecord(r journal.Record, t *journal.Task) *eventRecord {
	return feed.NewRecord(r.FirstSeq, len(r.GetFacts()), proto.Size(r.Record), func() []*executorv1.ExecutorEvent { return view.Events(t, r) })
}

// after returns the task with its newest checkpoint, and the records with facts after seq. complete is false if the journal has to be read
// instead.
func (t *watched) after(seq uint64) (task *journal.Task, records []*eventRecord, complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.task == nil || seq > t.task.Checkpoint.GetLastSeq():
		return nil, nil, false
	case seq == t.task.Checkpoint.GetLastSeq():
		return t.task, nil, true
	}
	records, complete = t.tail.After(seq)
	return t.task, records, complete
}

// publish passes a commit to watchers. Its arguments must not be changed afterwards.
func (h *hub) publish(id string, head *storagev1.TaskHead, c *storagev1.Checkpoint, r *storagev1.Record) {
	f := h.feeds.Find(id)
	if f != nil && f.State.add(&journal.Task{ID: id, Head: head, Checkpoint: c}, r) {
		f.Wake()
	}
}

// add adds a commit. It returns false if a newer one was added before.
func (t *watched) add(task *journal.Task, r *storagev1.Record) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := task.Checkpoint
	if t.task != nil && c.GetRev() <= t.task.Checkpoint.GetRev() {
		return false // from an owner that lost its claim after the commit
	}
	n := uint64(len(r.GetFacts()))
	if t.task != nil && c.GetLastSeq()-n != t.task.Checkpoint.GetLastSeq() {
		t.tail = feed.Tail[*executorv1.ExecutorEvent]{} // a commit in between was not published to this hub
	}
	t.task = task
	if n > 0 {
		t.tail.Add(newEventRecord(journal.Record{FirstSeq: c.GetLastSeq() - n + 1, Record: r}, task), tailRecords, tailBytes, 0)
	}
	return true
}
