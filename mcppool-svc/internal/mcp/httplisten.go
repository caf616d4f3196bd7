package mcp

import (
	"context"
	"net/http"
	"sync"
)

// notificationStream is the GET stream of a connection with a session, on which a server sends what belongs to no request.
// It can be closed for a while: it takes more memory than all else of a connection, and a TCP connection on both sides.
type notificationStream struct {
	mu      sync.Mutex
	resting chan struct{}      // guarded by mu; closed when the stream may be opened again; nil if it may be
	end     context.CancelFunc // guarded by mu; ends the open stream; may be nil
}

// rest closes the stream until wake.
func (s *notificationStream) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resting == nil {
		s.resting = make(chan struct{})
	}
	if s.end != nil {
		s.end()
	}
}

func (s *notificationStream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resting != nil {
		close(s.resting)
		s.resting = nil
	}
}

// open waits until a stream may be opened and returns its context; false if ctx ended first.
func (s *notificationStream) open(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	for {
		s.mu.Lock()
		resting := s.resting
		if resting == nil {
			stream, end := context.WithCancel(ctx)
			s.end = end
			s.mu.Unlock()
			return stream, end, true
		}
		s.mu.Unlock()
		select {
		case <-resting:
		case <-ctx.Done():
			return nil, nil, false
		}
	}
}

// listen keeps the notification stream open until the connection ends or the server turns out not to have one.
func (t *streamable) listen() {
	for {
		ctx, end, ok := t.notifications.open(t.life)
		if !ok {
			return
		}
		status := t.readNotifications(ctx)
		rested := ctx.Err() != nil
		end()
		switch {
		case status == http.StatusMethodNotAllowed, status == http.StatusNotFound:
			// 404 is also the answer of a server that forgot the session: the next request finds out.
			return
		case rested && t.life.Err() == nil:
			continue
		case !pause(t.life, nil, relistenMin):
			return
		}
	}
}

// readNotifications reads the stream until it ends, and returns its HTTP status, or 0.
func (t *streamable) readNotifications(ctx context.Context) int {
	resp, err := t.do(ctx, http.MethodGet, nil, nil)
	if err != nil {
		return 0
	}
	defer discard(resp)
	if resp.StatusCode != http.StatusOK || mediaType(resp) != eventsType {
		return resp.StatusCode
	}
	pass := t.client.passer(newThrottle())
	events := newEventReader(resp.Body, t.limit, 2)
	for {
		e, err := events.next()
		if err != nil || e.long {
			return resp.StatusCode
		}
		if m := readMessage(e.data); e.isMessage() && m.Err == nil && m.Method {
			pass(m, e.data, nil)
		}
	}
}

// Rest implements Rester: the stream on which a server sends changes over HTTP is closed. Over SSE it is the only stream, and
// over stdio it costs nothing, so there it stays.
func (c *client) Rest() bool {
	t, ok := c.wire.(*streamable)
	if !ok {
		return false
	}
	if c.isModern() {
		c.offers.stream.rest(true)
	} else {
		t.notifications.rest()
	}
	return true
}

// Wake implements Rester.
func (c *client) Wake() {
	if t, ok := c.wire.(*streamable); ok {
		t.notifications.wake()
	}
	if c.isModern() {
		c.offers.stream.rest(false)
	}
	c.tools.Add(1) // changes may have been missed
	c.offers.outdate(Resources, ResourceTemplates, Prompts)
}

// rest takes back what is wanted for a while.
func (s *stream) rest(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting = on
	s.round++
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
