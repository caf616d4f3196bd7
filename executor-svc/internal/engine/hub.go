package engine

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// tailRecords and tailBytes bound the records of a watched task in memory; older ones are read from the journal.
	tailRecords = 256
	tailBytes   = 1 << 20
)

// hub passes committed records to watchers from memory. Watchers pull, so that a slow watcher delays no other; it reads older records from the
// journal.
type hub struct {
	mu    sync.Mutex // guards feeds; held only shortly, because all tasks share it
	feeds map[string]*feed
}

// feed is a watched task. It exists while it has watchers.
type feed struct {
	id string

	mu       sync.Mutex // guards the fields below; taken after hub.mu
	watchers []*watcher
	// task has the newest committed checkpoint; nil until the first commit after the feed was made.
	task *journal.Task
	// tail holds the newest records, and size their bytes.
	tail []*eventRecord
	size int
}

// watcher watches one task.
type watcher struct {
	feed *feed
	// more receives a value when records were published that the watcher has not seen.
	more chan struct{}
}

// eventRecord is a record whose events are derived once for all watchers.
type eventRecord struct {
	journal.Record
	size    int // bytes
	task    *journal.Task
	once    sync.Once
	derived []*executorv1.ExecutorEvent
}

func newEventRecord(r journal.Record, t *journal.Task) *eventRecord {
	return &eventRecord{Record: r, size: proto.Size(r.Record), task: t}
}

func (r *eventRecord) events() []*executorv1.ExecutorEvent {
	r.once.Do(func() { r.derived, r.task = view.Events(r.task, r.Record), nil })
	return r.derived
}

func (r *eventRecord) lastSeq() uint64 { return r.FirstSeq + uint64(len(r.GetFacts())) - 1 }

func newHub() *hub { return &hub{feeds: map[string]*feed{}} }

// watch adds a watcher.
func (h *hub) watch(id string) *watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.feeds[id]
	if t == nil {
		t = &feed{id: id}
		h.feeds[id] = t
	}
	w := &watcher{feed: t, more: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, w)
	return w
}

// unwatch removes a watcher.
func (h *hub) unwatch(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := w.feed
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = slices.DeleteFunc(t.watchers, func(other *watcher) bool { return other == w })
	if len(t.watchers) == 0 {
		delete(h.feeds, t.id)
	}
}

// after returns the task with its newest checkpoint, and the records with facts after seq. complete is false if the journal has to be read
// instead.
func (w *watcher) after(seq uint64) (task *journal.Task, records []*eventRecord, complete bool) {
	t := w.feed
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.task == nil || seq > t.task.Checkpoint.GetLastSeq():
		return nil, nil, false
	case seq == t.task.Checkpoint.GetLastSeq():
		return t.task, nil, true
	case len(t.tail) == 0 || t.tail[0].FirstSeq > seq+1:
		return nil, nil, false
	}
	unseen := len(t.tail) - 1
	for unseen > 0 && t.tail[unseen-1].lastSeq() > seq {
		unseen--
	}
	return t.task, t.tail[unseen:len(t.tail):len(t.tail)], true
}

// publish passes a commit to watchers. Its arguments must not be changed afterwards.
func (h *hub) publish(id string, head *storagev1.TaskHead, c *storagev1.Checkpoint, r *storagev1.Record) {
	h.mu.Lock()
	t := h.feeds[id]
	h.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.task != nil && c.GetRev() <= t.task.Checkpoint.GetRev() {
		return // from an owner that lost its claim after the commit
	}
	n := uint64(len(r.GetFacts()))
	if t.task != nil && c.GetLastSeq()-n != t.task.Checkpoint.GetLastSeq() {
		t.tail, t.size = nil, 0 // a commit in between was not published to this hub
	}
	t.task = &journal.Task{ID: id, Head: head, Checkpoint: c}
	if n > 0 {
		t.add(newEventRecord(journal.Record{FirstSeq: c.GetLastSeq() - n + 1, Record: r}, t.task))
	}
	for _, w := range t.watchers {
		select {
		case w.more <- struct{}{}:
		default: // the watcher has not read since the last value
		}
	}
}

// add appends a record to the tail and drops the oldest ones beyond the bounds. A record that is larger than the bound is not kept.
func (t *feed) add(r *eventRecord) {
	t.tail = append(t.tail, r)
	t.size += r.size
	for len(t.tail) > tailRecords || t.size > tailBytes {
		t.size -= t.tail[0].size
		t.tail = t.tail[1:]
	}
}
