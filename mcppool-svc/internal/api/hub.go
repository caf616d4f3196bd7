package api

import (
	"sync"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/services/errs"
)

const (
	// maxNamed is how many names a watcher remembers before everything counts as changed.
	maxNamed = 1_000
	// maxStreams is how many subscriptions, of servers and resources, a user may have open at once.
	maxStreams = 200
)

// hub notifies watchers. It is safe for concurrent use.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{} // guarded by mu
}

func newHub() *hub { return &hub{watchers: make(map[*watcher]struct{})} }

// watcher is notified of what concerns its user. Close it.
type watcher struct {
	hub  *hub
	user string
	wake chan struct{} // buffered; gets a value when something changed since the last one

	named map[string]bool // guarded by the hub's mu; what changed; the empty name is everything
}

// Watch begins to watch for a user, unless the user does so too often.
func (h *hub) Watch(user string) (*watcher, error) {
	w := &watcher{hub: h, user: user, wake: make(chan struct{}, 1), named: make(map[string]bool)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count(user) >= maxStreams {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"you have %d subscriptions open; close one first", maxStreams)
	}
	h.watchers[w] = struct{}{}
	return w, nil
}

// Watches reports whether there is a watcher of a user; an empty user is any.
func (h *hub) Watches(user string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count(user) > 0
}

// count counts the watchers of a user; an empty user is any. Called with mu held.
func (h *hub) count(user string) (n int) {
	for w := range h.watchers {
		if user == "" || w.user == user {
			n++
		}
	}
	return n
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
	if len(w.named) >= maxNamed {
		thing = ""
	}
	w.named[thing] = true
	select {
	case w.wake <- struct{}{}:
	default: // it is notified already
	}
}

// Take returns a test of what changed since the last Take.
func (w *watcher) Take() (changed func(thing string) bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	named := w.named
	w.named = make(map[string]bool)
	return func(thing string) bool { return named[""] || named[thing] }
}

// Close ends the watching.
func (w *watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	delete(w.hub.watchers, w)
}
