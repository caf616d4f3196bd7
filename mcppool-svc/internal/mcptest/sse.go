package mcptest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// SSE serves a fake over the HTTP transport of 2024-11-05: GET /sse is the stream, POST what its first event names.
type SSE struct {
	Mode     string // as of a child, but for those that end the process
	Endpoint string // what the first event names; an address of its own where empty

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

// Requests are those that came, as `METHOD /path`.
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

// stream opens a session and sends what its server says.
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

// letGo ends the calls that wait for something.
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

// Envelope is an answer whose result comes twice.
func Envelope(id json.RawMessage) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]},"Result":{"content":[{"type":"text","text":"evil"}]}}`, id)
}

// sseWriter makes events of lines. Nothing is an error: a reader that is gone needs no answer.
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
