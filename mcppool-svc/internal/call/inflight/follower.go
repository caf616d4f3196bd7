package inflight

import (
	"slices"
	"sync"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// maxPending is how many events wait for a slow follower.
const maxPending = 64

// Follower receives the events of a call and never makes the server wait: if it is slow, older progress gives way to newer, and the
// oldest events to newer ones.
type Follower struct {
	ready chan struct{} // buffered

	mu      sync.Mutex
	pending []mcp.Notification // guarded by mu
}

func newFollower() *Follower { return &Follower{ready: make(chan struct{}, 1)} }

// Ready receives a value when there is something to take.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// put never blocks.
func (f *Follower) put(n mcp.Notification) {
	f.mu.Lock()
	f.makeRoom()
	f.pending = append(f.pending, n)
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// makeRoom drops the least important event if too many are pending: the oldest progress, else the oldest log, else an old state of
// the task. Questions stay: a call has a bounded number of them. Called with mu held.
func (f *Follower) makeRoom() {
	if len(f.pending) < maxPending {
		return
	}
	for _, least := range []func(mcp.Notification) bool{
		func(n mcp.Notification) bool { return n.Progress != nil },
		func(n mcp.Notification) bool { return n.Log != nil },
		func(n mcp.Notification) bool { return n.Task != nil },
	} {
		if i := slices.IndexFunc(f.pending, least); i >= 0 {
			f.pending = slices.Delete(f.pending, i, i+1)
			return
		}
	}
}

// Take returns the pending events and removes them.
func (f *Follower) Take() []mcp.Notification {
	f.mu.Lock()
	defer f.mu.Unlock()
	pending := f.pending
	f.pending = nil
	return pending
}
