package api

import "sync"

// maxNamed is how many names a watcher remembers before everything counts as changed.
const maxNamed = 1_000

// hub notifies watchers. It is safe for concurrent use.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{} // guarded by mu
}

// newHub returns a hub.
func newHub() *hub { return &hub{watchers: make(map[*watcher]struct{})} }

// watcher is notified of what concerns its user. Close it.
type watcher struct {
	hub  *hub
	user string
	wake chan struct{}

	all   bool            // guarded by the hub's mu; everything may have changed
	named map[string]bool // guarded by the hub's mu; what changed, where it is not all
}

// Watch begins to watch for a user.
func (h *hub) Watch(user string) *watcher {
	w := &watcher{hub: h, user: user, wake: make(chan struct{}, 1), named: make(map[string]bool)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[w] = struct{}{}
	return w
}

// Watches reports whether there is a watcher of a user; an empty user is any.
func (h *hub) Watches(user string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if user == "" || w.user == user {
			return true
		}
	}
	return false
}

// Touch reports that a thing changed for a user; an empty thing is any, an empty user all. It never blocks.
func (h *hub) Touch(thing, user string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if user == "" || w.user == user {
			w.touch(thing)
		}
	}
}

func (w *watcher) touch(thing string) {
	if thing == "" || len(w.named) >= maxNamed {
		w.all = true
		clear(w.named)
	}
	if !w.all {
		w.named[thing] = true
	}
	select {
	case w.wake <- struct{}{}:
	default: // it is notified already
	}
}

// Woken gets a value when something changed since the last one.
func (w *watcher) Woken() <-chan struct{} { return w.wake }

// Take returns a test of what changed since the last Take.
func (w *watcher) Take() (changed func(thing string) bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	all, named := w.all, w.named
	w.all, w.named = false, make(map[string]bool)
	return func(thing string) bool { return all || named[thing] }
}

// Close ends the watching.
func (w *watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	delete(w.hub.watchers, w)
}
