package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// overSSE connects to a fake over HTTP+SSE.
func overSSE(t *testing.T, fake *mcptest.SSE, cfg Config) Client {
	t.Helper()
	s := webServer(serveWeb(t, fake) + "/sse")
	s.HTTP.SSE, s.HTTP.Headers = true, map[string]string{"X-Key": "k"}
	s.Roots = []string{"file:///srv/a"}
	return dialServer(t, newConnector(t, cfg), s)
}

// TestSSE: the whole of a connection over the transport of 2024-11-05, requests of the server included.
func TestSSE(t *testing.T) {
	c := overSSE(t, &mcptest.SSE{Mode: mcptest.Offering}, Config{})
	if got := c.Info().Protocol; got != "2025-11-25" {
		t.Errorf("revision %s", got)
	}
	if tools, err := c.ListTools(t.Context()); err != nil || len(tools) < 20 {
		t.Errorf("%d tools, %v", len(tools), err)
	}
	if got := say(t, c, "echo", `{"text":"hello"}`); got != `{"text":"hello"}` {
		t.Errorf("echo says %s", got)
	}
	var progress []string
	_, err := c.CallTool(t.Context(), Call{Name: "steps", Arguments: strictjson.Checked(`{}`), Notify: func(n Notification) {
		if n.Progress != nil {
			progress = append(progress, n.Progress.Message)
		}
	}})
	if diff := cmp.Diff([]string{"step 1", "step 2", "step 3"}, progress); diff != "" {
		t.Errorf("%s, %v", diff, err)
	}
	if got := say(t, c, "ask", `{"method":"ping"}`); got != `{}` {
		t.Errorf("a ping was answered with %s", got)
	}
	if got := say(t, c, "ask", `{"method":"roots/list"}`); got != `{"roots":[{"uri":"file:///srv/a","name":"a"}]}` {
		t.Errorf("the roots are %s", got)
	}
	sub := subscribe(t, c.(Offers), "demo://1")
	say(t, c, "touch", `{"uri":"demo://1"}`)
	<-sub.Changed()
	if err := c.Probe(t.Context()); err != nil {
		t.Errorf("probe: %v", err)
	}
}

// TestSSECancels: the server is told of a cancelled call, and its answer to that is the result.
func TestSSECancels(t *testing.T) {
	c := overSSE(t, &mcptest.SSE{Mode: mcptest.Good}, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	raw, err := c.CallTool(ctx, Call{Name: "wait", Arguments: strictjson.Checked(`{}`), Notify: func(Notification) { cancel() }})
	if err != nil || !strings.Contains(string(raw), "stopped in time") {
		t.Errorf("call = %s, %v", raw, err)
	}
}

// TestSSELosesItsStream: calls whose stream is lost fail at once and may have run; the connection is lost.
func TestSSELosesItsStream(t *testing.T) {
	c := overSSE(t, &mcptest.SSE{Mode: mcptest.Hostile}, Config{})
	held := make(chan error, 1)
	holding := make(chan struct{})
	go func() {
		_, err := c.CallTool(context.WithoutCancel(t.Context()), Call{Name: "hold", Arguments: strictjson.Checked(`{}`),
			Notify: func(Notification) { close(holding) }})
		held <- err
	}()
	<-holding
	_, err := callTool(t, c, "drop", `{}`)
	for _, err := range []error{err, <-held} {
		e := As(err)
		if err == nil || e.Kind != Unavailable || !e.MayHaveRun || !e.Lost || !strings.Contains(e.Message, "stream of the server's messages was lost") {
			t.Errorf("a call over a lost stream: %+v", e)
		}
	}
	<-c.Done()
	// A later call is proven not to have been sent.
	if _, err := callTool(t, c, "echo", `{}`); err == nil || As(err).MayHaveRun {
		t.Errorf("a call after it: %v", err)
	}
}

// TestSSEBoundsMessages: an answer that is too long or has two results fails its own call only.
func TestSSEBoundsMessages(t *testing.T) {
	c := overSSE(t, &mcptest.SSE{Mode: mcptest.Hostile}, Config{MaxMessage: 64 << 10})
	if _, err := callTool(t, c, "large", `{"n":100000}`); err == nil || As(err).Kind != TooLarge || !As(err).Ended {
		t.Errorf("a long answer: %v", err)
	}
	if _, err := callTool(t, c, "envelope", `{}`); err == nil || As(err).Kind != Protocol || !As(err).Ended {
		t.Errorf("an answer with two results: %v", err)
	}
	if got := say(t, c, "echo", `{"text":"x"}`); got != `{"text":"x"}` {
		t.Errorf("echo says %s", got)
	}
}

// TestSSEEndpoint: messages go to the server's own origin, and to no address that may not be dialled.
func TestSSEEndpoint(t *testing.T) {
	elsewhere := serveWeb(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the foreign address was asked") }))
	c := newConnector(t, Config{})
	s := webServer(serveWeb(t, &mcptest.SSE{Endpoint: elsewhere + "/message"}) + "/sse")
	s.HTTP.SSE = true
	_, err := connect(t, c, s)
	if err == nil || As(err).Kind != AddressRefused || !strings.Contains(err.Error(), "own origin") {
		t.Errorf("a foreign endpoint: %v", err)
	}
	s = webServer(serveWeb(t, &mcptest.SSE{}) + "/sse")
	s.HTTP.SSE, s.HTTP.PublicOnly, s.ByOperator = true, true, false
	if _, err := connect(t, c, s); err == nil || As(err).Kind != AddressRefused {
		t.Errorf("a loopback address of a plain user: %v", err)
	}
	s = webServer(serveWeb(t, http.RedirectHandler(serveWeb(t, &mcptest.SSE{})+"/sse", http.StatusTemporaryRedirect)))
	s.HTTP.SSE = true
	if _, err := connect(t, c, s); err == nil || As(err).Kind != AddressRefused {
		t.Errorf("a redirect to a loopback address: %v", err)
	}
}

// mapMemory is a Memory.
type mapMemory struct {
	mu    sync.Mutex
	hints map[string]string // guarded by mu; by origin
}

func newMemory() *mapMemory { return &mapMemory{hints: make(map[string]string)} }

func (m *mapMemory) Recall(origin string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hints[origin]
}

func (m *mapMemory) Remember(origin, hint string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hints[origin] = hint
}

// TestFallsBackToSSEOnce: HTTP+SSE is used if streamable HTTP is refused, is remembered, and forgotten when it no longer works.
func TestFallsBackToSSEOnce(t *testing.T) {
	fake := &mcptest.SSE{Mode: mcptest.Good}
	web := httptest.NewServer(fake)
	t.Cleanup(web.Close)
	memory := newMemory()
	connector := newConnector(t, Config{TransportHints: memory})
	s := webServer(web.URL + "/sse")
	first := dialServer(t, connector, s)
	if got := say(t, first, "echo", `{"text":"x"}`); got != `{"text":"x"}` {
		t.Errorf("echo says %s", got)
	}
	if got := memory.Recall(s.Origin()); got != "sse" {
		t.Errorf("remembered %q", got)
	}
	before := len(fake.Requests())
	dialServer(t, connector, s)
	if got := fake.Requests()[before]; got != "GET /sse" {
		t.Errorf("the second connect began with %s", got)
	}
	web.CloseClientConnections()
	web.Close()
	if _, err := connect(t, connector, s); err == nil || memory.Recall(s.Origin()) != "" {
		t.Errorf("error %v, remembered %q", err, memory.Recall(s.Origin()))
	}
}

// TestErasAreRemembered: the second connection to a server without handshake does not try one.
func TestErasAreRemembered(t *testing.T) {
	memory := newMemory()
	connector := newConnector(t, Config{TransportHints: memory})
	s := &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mcptest.OfferingModern)}
	dialServer(t, connector, s)
	second := dialServer(t, connector, s)
	if got := say(t, second, "heard", `{}`); strings.Contains(got, "initialize") || second.Info().Protocol != "2026-07-28" {
		t.Errorf("the server heard %s, and speaks %s", got, second.Info().Protocol)
	}
	// It was replaced by an older one.
	s.Stdio = mcptest.Stdio(mcptest.Offering)
	if got := dialServer(t, connector, s).Info().Protocol; got != "2025-11-25" || memory.Recall(s.Origin()) != "" {
		t.Errorf("speaks %s, remembered %q", got, memory.Recall(s.Origin()))
	}
}

// TestAncient: server/discover is not sent to a child of 2024-11-05, which ignores requests that it does not know.
func TestAncient(t *testing.T) {
	c := dial(t, mcptest.Ancient)
	if c.Info().Protocol != "2024-11-05" {
		t.Errorf("speaks %s", c.Info().Protocol)
	}
	if got := say(t, c, "heard", `{}`); strings.Contains(got, "discover") {
		t.Errorf("the server heard %s", got)
	}
}
