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
	// tailRecords and tailBytes bound what is kept of a watched task in memory; older records are read from the journal.
	tailRecords = 256
	tailBytes   = 1 << 20
)

// hub gives watchers what was committed since they came, from memory. They pull: a slow one costs nobody anything, and
// reads from the journal what it is too late for.
type hub struct {
	mu     sync.Mutex // guards topics, and is held for looking them up alone: all tasks share it
	topics map[string]*topic
}

// topic is a watched task. It exists while somebody watches; what is published to one that was just forgotten is in the journal.
type topic struct {
	id string

	mu       sync.Mutex // guards what follows. Taken after hub.mu
	watchers []*watcher
	// task is the newest committed checkpoint; nil until something was committed since the first watcher came.
	task *journal.Task
	tail []*shared
	size int
}

// watcher is somebody who watches a task.
type watcher struct {
	topic *topic
	// more has something in it once more was published than the watcher has seen.
	more chan struct{}
}

// shared is a record whose events are derived once for all watchers.
type shared struct {
	journal.Record
	size    int
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

// watch counts a watcher in.
func (h *hub) watch(id string) *watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[id]
	if t == nil {
		t = &topic{id: id}
		h.topics[id] = t
	}
	w := &watcher{topic: t, more: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, w)
	return w
}

// expect counts a watcher of a new task in that is about to be stored. Nobody else knows its id before it is.
func (h *hub) expect(n journal.NewTask) *watcher {
	w := h.watch(n.ID)
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	t.task = &journal.Task{ID: n.ID, Head: n.Head, Checkpoint: n.Checkpoint}
	for _, r := range n.Records {
		t.add(share(t.task, r))
	}
	return w
}

// leave counts a watcher out.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = slices.DeleteFunc(t.watchers, func(other *watcher) bool { return other == w })
	if len(t.watchers) == 0 {
		delete(h.topics, t.id)
	}
}

// news is what a watcher finds.
type news struct {
	// task is the newest checkpoint, nil where the journal has to be asked.
	task *journal.Task
	// records follow what the watcher has seen; where complete is false, older ones come first, from the journal.
	records  []*shared
	complete bool
}

// after returns what there is behind a seq.
func (w *watcher) after(seq uint64) news {
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	n := news{task: t.task}
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
	t := h.topic(id)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.task != nil && c.GetRev() <= t.task.Checkpoint.GetRev() {
		return // of an owner that lost its claim after this was durable
	}
	n := uint64(len(r.GetFacts()))
	if t.task != nil && c.GetLastSeq()-n != t.task.Checkpoint.GetLastSeq() {
		t.tail, t.size = nil, 0 // something between was not published here
	}
	s := &struct { // allocated at once
		task journal.Task
		shared
	}{task: journal.Task{ID: id, Head: head, Checkpoint: c}}
	t.task = &s.task
	if n > 0 {
		s.Record, s.shared.task = journal.Record{FirstSeq: c.GetLastSeq() - n + 1, Record: r}, t.task
		t.add(&s.shared)
	}
	for _, w := range t.watchers {
		select {
		case w.more <- struct{}{}:
		default: // it has not looked yet
		}
	}
}

func (h *hub) topic(id string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[id]
}

// add keeps a record that was committed with the newest checkpoint.
func (t *topic) add(s *shared) {
	if t.tail == nil {
		t.tail = make([]*shared, 0, usualRecords)
	}
	s.size = weight(s.Record)
	t.tail = append(t.tail, s)
	t.size += s.size
	for len(t.tail) > tailRecords || t.size > tailBytes && len(t.tail) > 1 {
		t.size -= t.tail[0].size
		t.tail = t.tail[1:]
	}
}

// weight is about the size of a record.
func weight(r journal.Record) (n int) {
	const rest = 64 // of a fact beside its text
	for _, f := range r.GetFacts() {
		switch k := f.GetKind().(type) {
		case *storagev1.Fact_StepInit:
			n += rest + len(k.StepInit)
		case *storagev1.Fact_StepInput:
			n += rest + len(k.StepInput)
		case *storagev1.Fact_StepOutput:
			n += rest + len(k.StepOutput)
		default:
			n += rest + proto.Size(f)
		}
	}
	return n
}

// usualRecords is how many records there is room for at first.
const usualRecords = 16
