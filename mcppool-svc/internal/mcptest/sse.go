package mcptest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// SSE serves the MCP server over the HTTP transport of 2024-11-05. GET /sse opens the stream; messages are a POST to the address that the first
// event names.
type SSE struct {
	Mode     string // a mode that does not end the process
	Endpoint string // the address in the first event; if empty, one of the server

	mu       sync.Mutex
	sessions map[string]*sseSession // guarded by mu; by id
	made     int                    // guarded by mu
	requests []string               // guarded by mu; method and path of each
}

type sseSession struct {
	server *server
	end    chan struct{}
	once   sync.Once
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
	session := h.sessions[r.URL.Query().Get("session")]
	h.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/sse":
		h.stream(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/message" && session != nil:
		session.post(w, r)
	case r.URL.Path == "/sse":
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
	default:
		http.NotFound(w, r)
	}
}

// stream opens a session and sends its server's messages.
func (h *SSE) stream(w http.ResponseWriter, r *http.Request) {
	out := &sseWriter{w: w}
	session := &sseSession{server: newServer(h.Mode, out), end: make(chan struct{})}
	h.mu.Lock()
	h.made++
	id := strconv.Itoa(h.made)
	if h.sessions == nil {
		h.sessions = make(map[string]*sseSession)
	}
	h.sessions[id] = session
	h.mu.Unlock()
	defer func() {
		out.close()
		session.server.letGo()
		h.mu.Lock()
		delete(h.sessions, id)
		h.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	endpoint := h.Endpoint
	if endpoint == "" {
		endpoint = "/message?session=" + id
	}
	out.event("endpoint", endpoint)
	select {
	case <-session.end:
	case <-r.Context().Done():
	}
}

// letGo ends the calls that wait.
func (s *server) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.cancelled {
		close(ch)
	}
	clear(s.cancelled)
	s.held = nil
	for _, ch := range s.waiting {
		close(ch)
	}
	clear(s.waiting)
}

// post takes one message. The tool `drop` ends the stream instead of answering, `long` answers with more than a client
// takes, and `envelope` with a result twice.
func (s *sseSession) post(w http.ResponseWriter, r *http.Request) {
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	switch name := parse(m).name; {
	case m.Method != "tools/call":
		s.server.handle(m)
	case name == "drop":
		s.once.Do(func() { close(s.end) })
	case name == "envelope":
		s.server.write(Envelope(m.ID))
	default:
		s.server.handle(m)
	}
}

// Envelope returns a response with two results.
func Envelope(id json.RawMessage) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]},"Result":{"content":[{"type":"text","text":"evil"}]}}`, id)
}

// sseWriter writes lines as events. It ignores errors: if the reader is gone, nothing is to be done.
type sseWriter struct {
	mu     sync.Mutex
	w      http.ResponseWriter // guarded by mu; nil once closed
	closed bool                // guarded by mu
}

func (s *sseWriter) Write(line []byte) (int, error) {
	s.event("message", string(line[:len(line)-1]))
	return len(line), nil
}

func (s *sseWriter) event(name, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if _, err := io.WriteString(s.w, "event: "+name+"\ndata: "+data+"\n\n"); err == nil {
		_ = http.NewResponseController(s.w).Flush()
	}
}

func (s *sseWriter) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
