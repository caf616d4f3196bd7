package mcptest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Web returns the server over streamable HTTP, without sessions. It sends only responses: no requests or notifications.
func Web(mode string) http.Handler {
	w := &web{pending: make(map[string]pending)}
	w.server = newServer(mode, w)
	return w
}

type web struct {
	server *server

	mu      sync.Mutex
	next    int                // guarded by mu
	pending map[string]pending // guarded by mu
}

// pending is a request that waits for its response. id is the client's; the server gets an id that is unique among all clients.
type pending struct {
	id     json.RawMessage
	answer chan []byte
}

// ServeHTTP implements http.Handler.
func (w *web) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	if in.Method != http.MethodPost {
		out.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(in.Body)
	var m message
	if err != nil || json.Unmarshal(body, &m) != nil {
		out.WriteHeader(http.StatusBadRequest)
		return
	}
	if len(m.ID) == 0 {
		w.server.handle(m)
		out.WriteHeader(http.StatusAccepted)
		return
	}
	p := pending{id: m.ID, answer: make(chan []byte, 1)}
	w.mu.Lock()
	w.next++
	id := fmt.Sprint(w.next)
	w.pending[id] = p
	w.mu.Unlock()
	m.ID = json.RawMessage(id)
	w.server.handle(m)
	select {
	case answer := <-p.answer:
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write(answer)
	case <-in.Context().Done():
	}
}

// Write implements io.Writer: it takes one message.
func (w *web) Write(line []byte) (int, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return 0, err
	}
	w.mu.Lock()
	p, ok := w.pending[string(fields["id"])]
	delete(w.pending, string(fields["id"]))
	w.mu.Unlock()
	if ok {
		fields["id"] = p.id
		answer, err := json.Marshal(fields)
		if err != nil {
			return 0, err
		}
		p.answer <- answer
	}
	return len(line), nil
}
