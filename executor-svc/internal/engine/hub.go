package engine

import "sync"

// hub tells watchers that there is more to read. It carries no events: watchers read those from the journal, so that a
// slow one costs nobody anything.
type hub struct {
	mu     sync.Mutex // guards topics
	topics map[string]*topic
}

type topic struct {
	more     chan struct{}
	watchers int
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

// more returns a channel that is closed by the next notify. Take it before reading the journal.
func (h *hub) more(id string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[id].more
}

func (h *hub) notify(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[id]; t != nil {
		close(t.more)
		t.more = make(chan struct{})
	}
}
