package ledger

import (
	"slices"
	"sync"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// mailboxSize is how many messages wait for a slow reader.
const mailboxSize = 64

// Mailbox takes what a server says during a call and never makes it wait: where the reader is slow, progress gives way to
// newer progress, and the oldest messages to newer ones.
type Mailbox struct {
	ready chan struct{}  // buffered; something came; with begin there is none before the first letter
	begin func(*Mailbox) // told of the first letter; nil where that was done, or nobody wants to know

	mu      sync.Mutex
	letters []mcp.Notification // guarded by mu
}

func newMailbox() *Mailbox { return &Mailbox{ready: make(chan struct{}, 1)} }

// Ready has something to receive when there is something to take.
func (m *Mailbox) Ready() <-chan struct{} { return m.ready }

// put never blocks. It is called by one at a time.
func (m *Mailbox) put(n mcp.Notification) {
	if m.begin != nil {
		m.ready = make(chan struct{}, 1)
		m.begin(m)
		m.begin = nil
	}
	m.mu.Lock()
	m.letters = append(m.makeRoom(), n)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// makeRoom drops what matters least when the box is full: the oldest progress, else the oldest log, else an old state of the
// task. Questions stay: a call has a bounded number of them. Called with mu held.
func (m *Mailbox) makeRoom() []mcp.Notification {
	if len(m.letters) < mailboxSize {
		return m.letters
	}
	for _, least := range []func(mcp.Notification) bool{
		func(n mcp.Notification) bool { return n.Progress != nil },
		func(n mcp.Notification) bool { return n.Log != nil },
		func(n mcp.Notification) bool { return n.Task != nil },
	} {
		if drop := slices.IndexFunc(m.letters, least); drop >= 0 {
			return slices.Delete(m.letters, drop, drop+1)
		}
	}
	return m.letters
}

// Take empties the box.
func (m *Mailbox) Take() []mcp.Notification {
	m.mu.Lock()
	defer m.mu.Unlock()
	letters := m.letters
	m.letters = nil
	return letters
}
