package call

import (
	"sync"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/upstream"
)

// mailboxSize is how many messages wait for a slow reader.
const mailboxSize = 64

// mailbox takes what a server says during a call and never makes it wait: where the reader is slow, progress gives way to
// newer progress, and the oldest messages to newer ones.
type mailbox struct {
	ready chan struct{} // buffered; something came

	mu      sync.Mutex
	letters []upstream.Notification // guarded by mu
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

// put never blocks.
func (m *mailbox) put(n upstream.Notification) {
	m.mu.Lock()
	m.letters = append(m.makeRoom(), n)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// makeRoom drops what matters least when the box is full: the oldest progress, else the oldest log. Called with mu held.
func (m *mailbox) makeRoom() []upstream.Notification {
	if len(m.letters) < mailboxSize {
		return m.letters
	}
	drop := 0
	for i, l := range m.letters {
		if l.Progress != nil {
			drop = i
			break
		}
	}
	return append(m.letters[:drop], m.letters[drop+1:]...)
}

// take empties the box.
func (m *mailbox) take() []*mcppoolv1.CallToolResponse {
	m.mu.Lock()
	letters := m.letters
	m.letters = nil
	m.mu.Unlock()
	out := make([]*mcppoolv1.CallToolResponse, len(letters))
	for i, l := range letters {
		out[i] = toResponse(l)
	}
	return out
}

func toResponse(n upstream.Notification) *mcppoolv1.CallToolResponse {
	if p := n.Progress; p != nil {
		return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Progress{
			Progress: &mcppoolv1.CallProgress{Progress: p.Done, Total: p.Total, Message: clean(p.Message)},
		}}
	}
	l := n.Log
	return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Log{
		Log: &mcppoolv1.CallLog{Level: clean(l.Level), Logger: clean(l.Logger), DataJson: clean(l.Data)},
	}}
}
