package engine

import (
	"sync"

	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// tailRecords and tailBytes bound what is kept of a watched task in memory; older records are read from the journal.
	tailRecords = 256
	tailBytes   = 1 << 20
)

// hub gives watchers what was committed since they came, from memory. They pull: a slow one costs nobody anything, and
// reads from the journal what it is too late for.
type hub struct {
	mu     sync.Mutex // guards topics and what is in them
	topics map[string]*topic
}

// topic is a watched task. It exists while somebody watches.
type topic struct {
	more     chan struct{}
	watchers int
	// task is the newest committed checkpoint; nil until something was committed since the first watcher came.
	task *journal.Task
	tail []*shared
	size int
}

// shared is a record whose events are derived once for all watchers.
type shared struct {
	journal.Record
	task    *journal.Task
	once    sync.Once
	derived []*executorv1.ExecutorEvent
}

func share(t *journal.Task, r journal.Record) *shared { return &shared{Record: r, task: t} }

func (s *shared) events() []*executorv1.ExecutorEvent {
	s.once.Do(func() { s.derived, s.task = view.Events(s.task, s.Record, 0), nil })
	return s.derived
}

func newHub() *hub { return &hub{topics: map[string]*topic{}} }

// watch counts a watcher in; leave counts it out.
func (h *hub) watch(id string) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[id]
	if t == nil {
		t = &topic{more: make(chan struct{})}
		h.topics[id] = t
	}
	t.watchers++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.watchers--; t.watchers == 0 {
			delete(h.topics, id)
		}
	}
}

// news is what a watcher finds.
type news struct {
	// more is closed by the next publish.
	more <-chan struct{}
	// task is the newest checkpoint, nil where the journal has to be asked.
	task *journal.Task
	// records follow what the watcher has seen; where complete is false, older ones come first, from the journal.
	records  []*shared
	complete bool
}

// after returns what there is behind a seq.
func (h *hub) after(id string, seq uint64) news {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[id]
	n := news{more: t.more, task: t.task}
	if t.task == nil || seq > t.task.Checkpoint.GetLastSeq() {
		return n
	}
	if seq == t.task.Checkpoint.GetLastSeq() {
		n.complete = true
		return n
	}
	if len(t.tail) == 0 || t.tail[0].FirstSeq > seq+1 {
		return n
	}
	n.complete = true
	for i := len(t.tail) - 1; i >= 0; i-- {
		if last := t.tail[i].FirstSeq + uint64(len(t.tail[i].GetFacts())) - 1; last <= seq {
			n.records = t.tail[i+1 : len(t.tail) : len(t.tail)]
			return n
		}
	}
	n.records = t.tail[:len(t.tail):len(t.tail)]
	return n
}

// publish gives watchers what was committed. It must not be changed afterwards.
func (h *hub) publish(id string, head *storagev1.TaskHead, c *storagev1.Checkpoint, r *storagev1.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[id]
	if t == nil {
		return
	}
	if t.task != nil && c.GetRev() <= t.task.Checkpoint.GetRev() {
		return // of an owner that lost its claim after this was durable
	}
	if t.task != nil && c.GetLastSeq()-uint64(len(r.GetFacts())) != t.task.Checkpoint.GetLastSeq() {
		t.tail, t.size = nil, 0 // something between was not published here
	}
	t.task = &journal.Task{ID: id, Head: head, Checkpoint: c}
	if n := len(r.GetFacts()); n > 0 {
		t.tail = append(t.tail, share(t.task, journal.Record{FirstSeq: c.GetLastSeq() - uint64(n) + 1, Record: r}))
		t.size += proto.Size(r)
		for len(t.tail) > tailRecords || t.size > tailBytes && len(t.tail) > 1 {
			t.size -= proto.Size(t.tail[0].Record.Record)
			t.tail = t.tail[1:]
		}
	}
	close(t.more)
	t.more = make(chan struct{})
}
