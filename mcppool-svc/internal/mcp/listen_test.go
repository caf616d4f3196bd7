package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/registry"
)

// listening is a server that asks on the listening stream; each answer comes in a request of its own.
type listening struct {
	session string
	out     chan string // events for the stream

	mu      sync.Mutex
	answers []http.Header // guarded by mu
	waiting chan string   // the id and result of each answer
}

func (s *listening) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case event := <-s.out:
				_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Result json.RawMessage
	}
	_ = json.Unmarshal(body, &m)
	switch {
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", s.session)
		s.reply(w, m.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}`)
	case m.Method == "tools/call":
		s.out <- `{"jsonrpc":"2.0","id":"ask-1","method":"elicitation/create","params":{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`
		text, _ := json.Marshal(<-s.waiting)
		s.reply(w, m.ID, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
	case m.Method == "" && len(m.Result) > 0:
		s.mu.Lock()
		s.answers = append(s.answers, r.Header.Clone())
		s.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		s.waiting <- string(m.ID) + string(m.Result)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (*listening) reply(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// A server of 2025-06-18 asks on the listening stream, which belongs to no call; the answer carries session and revision.
func TestHTTPAskingOnTheListeningStream(t *testing.T) {
	s := &listening{session: "s-1", out: make(chan string), waiting: make(chan string, 1)}
	c := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, s)))
	p := &person{answer: says}
	got, err := p.call(t, c, "form", `{}`)
	if err != nil || !strings.Contains(got, `\"ask-1\"{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}`) {
		t.Errorf("result = %s, %v", got, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) != 1 || s.answers[0].Get("Mcp-Session-Id") != "s-1" || s.answers[0].Get("Mcp-Protocol-Version") != "2025-06-18" {
		t.Errorf("answered with %v", s.answers)
	}
}

func FuzzAsks(f *testing.F) {
	f.Add(`{"resultType":"input_required","requestState":"s","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example"}}}}`)
	f.Add(`{"task":{"taskId":"1","status":"working","ttl":1e300,"pollInterval":-1}}`)
	f.Add(`{"resultType":"task","taskId":"1","inputRequests":{"a":{"method":"roots/list"}}}`)
	c := &client{server: &registry.Server{}}
	f.Fuzz(func(t *testing.T, raw string) {
		fields := unfinished([]byte(raw))
		if task, is := taskOf(fields, true); is && (task.TTL < 0 || task.poll < 0) {
			t.Errorf("durations %v, %v", task.TTL, task.poll)
		}
		var next round
		if next.keepState(fields) == nil {
			inputs, err := c.readInputs(fields["inputRequests"])
			for name, in := range inputs {
				if q := in.question; q != nil && (err != nil || name == "" || (q.URL == "") == (q.Schema == "")) {
					t.Errorf("question %q: %+v, %v", name, q, err)
				}
			}
		}
		q, err := readQuestion([]byte(raw))
		if err == nil && q.URL != "" && checkURL(q.URL) != nil {
			t.Errorf("the address %q is passed on", q.URL)
		}
	})
}

func TestSafeURL(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://a.example/x?y#z": true, "http://localhost:8080/": true, "http://127.0.0.1/": true, "http://[::1]/": true,
		"http://a.example/": false, "https://": false, "https:/x": false, "javascript:alert(1)": false, "file:///etc/passwd": false, "": false,
		"https://user:pw@a.example/": false, "http://localhost.evil.example/": false, "https://a.example/" + strings.Repeat("x", maxURL): false,
	} {
		if err := checkURL(url); (err == nil) != ok {
			t.Errorf("%.60s: %v", url, err)
		}
	}
}

func TestContinuation(t *testing.T) {
	state := "opaque \u2028 \"state\""
	text, err := json.Marshal(Continuation{Server: &state, Answers: map[string]json.RawMessage{"r": []byte("1")}, Round: 3})
	if err != nil {
		t.Fatal(err)
	}
	c, err := DecodeContinuation(string(text))
	if err != nil || *c.Server != state || c.Round != 3 || len(c.Answers) != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, bad := range []string{"", "x", "{}", `{"round":0}`, `[]`} {
		if _, err := DecodeContinuation(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// An acknowledgement of an earlier request that comes after the next one was sent is ignored.
func TestLateAcknowledgement(t *testing.T) {
	o := &offers{}
	var known *mcp.SubscriptionFilter
	o.agreed.Store(int64(7), func(f mcp.SubscriptionFilter) { known = &f })
	acknowledged := func(id any, uri string) mcp.NotificationParams {
		return mcp.NotificationParams{Meta: map[string]any{mcp.MetaKeySubscriptionID: id},
			AdditionalFields: map[string]any{"notifications": map[string]any{"resourceSubscriptions": []string{uri}}}}
	}
	for _, id := range []any{float64(6), "6"} {
		if o.onAcknowledged(acknowledged(id, "early")); known != nil {
			t.Fatalf("%v was taken for request 7", id)
		}
	}
	for _, id := range []any{float64(7), "7", nil} {
		if o.onAcknowledged(acknowledged(id, "now")); known == nil || known.ResourceSubscriptions[0] != "now" {
			t.Errorf("%v was not taken for request 7", id)
		}
		known = nil
	}
}

// A server that floods is read more slowly; a long notification counts as many.
func TestNotificationsAreThrottled(t *testing.T) {
	connector := newConnector(t, Config{})
	synctest.Test(t, func(t *testing.T) {
		c := connector.newClient(&registry.Server{ID: "s"}, legacy)
		note := []byte(`{"jsonrpc":"2.0","method":"notifications/other"}`)
		pass := func(n int, text []byte) time.Duration {
			start := time.Now()
			for range n {
				c.dispatch(text, true, nil)
			}
			return time.Since(start).Round(10 * time.Millisecond)
		}
		if took := pass(noteBurst, note); took != 0 {
			t.Errorf("a burst waited %v", took)
		}
		if took := pass(2*noteRate, note); took != 2*time.Second {
			t.Errorf("as many as in 2 s took %v", took)
		}
		if took := pass(1, bytes.Repeat([]byte(" "), 32<<20)); took < 400*time.Millisecond {
			t.Errorf("a large one waited %v", took)
		}
		c.finish()
	})
}
