package mcptest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// Web returns the server over streamable HTTP, without sessions. It sends only responses: no requests or notifications.
func Web(mode string) http.Handler {
	s := newServer(mode, io.Discard)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		answer := make(chan string, 1)
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case json.NewDecoder(r.Body).Decode(&m) != nil:
			w.WriteHeader(http.StatusBadRequest)
		case len(m.ID) == 0:
			s.handle(m, answer)
			w.WriteHeader(http.StatusAccepted)
		default:
			s.handle(m, answer)
			select {
			case line := <-answer:
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, line)
			case <-r.Context().Done():
			}
		}
	})
}

// SSE serves the MCP server over the HTTP transport of 2024-11-05. GET /sse opens the stream; messages are a POST to the address that the first
// event names.
type SSE struct {
	Mode     string // a mode that does not end the process
	Endpoint string // the address in the first event; if empty, the server's own

	mu       sync.Mutex
	sessions map[string]*server // guarded by mu; by the query of their address; nil once ended
	requests []string           // guarded by mu; method and path of each
}

// Requests returns the requests so far, as `METHOD /path`.
func (h *SSE) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.requests...)
}

// ServeHTTP implements http.Handler.
func (h *SSE) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests = append(h.requests, r.Method+" "+r.URL.Path)
	session := h.sessions[r.URL.RawQuery]
	h.mu.Unlock()
	var m message
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/sse":
		h.stream(w, r)
	case r.URL.Path == "/sse":
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
	case session == nil || r.Method != http.MethodPost:
		http.NotFound(w, r)
	case json.NewDecoder(r.Body).Decode(&m) != nil:
		http.Error(w, "not a message", http.StatusBadRequest)
	default:
		w.WriteHeader(http.StatusAccepted)
		session.handle(m, nil)
	}
}

// stream opens a session and sends its server's messages.
func (h *SSE) stream(w http.ResponseWriter, r *http.Request) {
	s := newServer(h.Mode, events{w})
	defer s.abort()
	h.mu.Lock()
	if h.sessions == nil {
		h.sessions = make(map[string]*server)
	}
	query := "session=" + strconv.Itoa(len(h.sessions)+1)
	h.sessions[query] = s
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.sessions[query] = nil
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	endpoint := h.Endpoint
	if endpoint == "" {
		endpoint = "/message?" + query
	}
	s.mu.Lock() // the client may write before this event is flushed
	events{w}.send("endpoint", endpoint)
	s.mu.Unlock()
	select {
	case <-s.ended:
	case <-r.Context().Done():
	}
}

// events writes lines as events, and ignores errors.
type events struct{ w http.ResponseWriter }

// Write implements io.Writer.
func (e events) Write(line []byte) (int, error) {
	e.send("message", string(line[:len(line)-1]))
	return len(line), nil
}

func (e events) send(name, data string) {
	if _, err := fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, data); err == nil {
		_ = http.NewResponseController(e.w).Flush()
	}
}
