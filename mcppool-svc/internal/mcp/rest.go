package mcp

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// Rest implements Rester. The stream on which a server tells of changes takes more memory than all else of a connection
// over HTTP, and a TCP connection on both sides. Where it is all there is (SSE), and where it costs nothing (stdio), it stays.
func (c *client) Rest() bool {
	switch {
	case c.isModern() && c.web:
		c.offers.stream.rest(true)
	case c.ear != nil:
		c.ear.close()
	default:
		return false
	}
	return true
}

// Wake implements Rester.
func (c *client) Wake() {
	if c.ear != nil {
		c.ear.open()
	}
	if c.isModern() {
		c.offers.stream.rest(false)
	}
	c.tools.Add(1) // nobody listened meanwhile
	c.offers.outdate(Resources, ResourceTemplates, Prompts)
}

// rest takes what is wanted back for a while.
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

// ear lets the one stream of a connection with a session, which mcp-go opens again and again, end and wait.
type ear struct {
	next http.RoundTripper

	mu     sync.Mutex
	opened chan struct{}                 // guarded by mu; closed when streams may be opened again; nil while they may
	ends   map[*heard]context.CancelFunc // guarded by mu; of those that are open
}

// heard is an open stream.
type heard struct {
	io.ReadCloser
	ear *ear
}

func newEar(next http.RoundTripper) *ear {
	return &ear{next: next, ends: make(map[*heard]context.CancelFunc)}
}

func (e *ear) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened != nil {
		return
	}
	e.opened = make(chan struct{})
	for _, end := range e.ends {
		end()
	}
}

func (e *ear) open() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened != nil {
		close(e.opened)
		e.opened = nil
	}
}

// RoundTrip implements http.RoundTripper.
func (e *ear) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return e.next.RoundTrip(req)
	}
	ctx, end := context.WithCancel(req.Context())
	h := &heard{ear: e}
	if err := e.enter(ctx, h, end); err != nil {
		end()
		return nil, err
	}
	resp, err := e.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		h.leave()
		return nil, err
	}
	h.ReadCloser = resp.Body
	resp.Body = h
	return resp, nil
}

// enter waits until a stream may be opened.
func (e *ear) enter(ctx context.Context, h *heard, end context.CancelFunc) error {
	for {
		e.mu.Lock()
		opened := e.opened
		if opened == nil {
			e.ends[h] = end
			e.mu.Unlock()
			return nil
		}
		e.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close implements io.Closer.
func (h *heard) Close() error {
	h.leave()
	return h.ReadCloser.Close()
}

func (h *heard) leave() {
	h.ear.mu.Lock()
	defer h.ear.mu.Unlock()
	if end := h.ear.ends[h]; end != nil {
		end()
	}
	delete(h.ear.ends, h)
}

// CloseIdleConnections lets http.Client's method of that name reach the transport.
func (e *ear) CloseIdleConnections() {
	if c, ok := e.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
