package pipeline

import (
	"context"
	"sync"

	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
)

// Tee passes events to a client without ever waiting for it. Texts that wait for a slow client become one event, so that what waits is never more than the response
// itself. A nil Tee drops all events.
type Tee struct {
	mu     sync.Mutex // guards the fields below
	queue  []*pipelinev1.StreamCompleteResponse
	text   []byte // comes after the queue
	closed bool
	// changed is closed by the next change, if someone waits for it.
	changed chan struct{}
}

// Send queues an event.
func (t *Tee) Send(e *pipelinev1.StreamCompleteResponse) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if text, ok := e.GetEvent().(*pipelinev1.StreamCompleteResponse_Text); ok {
		t.text = append(t.text, text.Text...)
	} else {
		t.flush()
		t.queue = append(t.queue, e)
	}
	t.wake()
}

// Close lets Forward return once all events were sent.
func (t *Tee) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.wake()
}

// flush queues the text. The caller holds mu.
func (t *Tee) flush() {
	if len(t.text) > 0 {
		t.queue = append(t.queue, &pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_Text{Text: string(t.text)}})
		t.text = nil
	}
}

// wake wakes Forward. The caller holds mu.
func (t *Tee) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Forward passes the events to send until Close was called and all were sent, send fails, or ctx ends.
func (t *Tee) Forward(ctx context.Context, send func(*pipelinev1.StreamCompleteResponse) error) error {
	for {
		events, changed := t.take()
		for _, e := range events {
			if err := send(e); err != nil {
				return err
			}
		}
		if len(events) > 0 {
			continue
		}
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take removes and returns what waits. If nothing does, it returns the channel that the next change closes, or nil after Close.
func (t *Tee) take() ([]*pipelinev1.StreamCompleteResponse, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
	events := t.queue
	t.queue = nil
	if len(events) > 0 || t.closed {
		return events, nil
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return nil, t.changed
}
