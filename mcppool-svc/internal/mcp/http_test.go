package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// newMCP is a server of mcp-go with the tools echo and wait.
func newMCP(t testing.TB) *server.MCPServer {
	t.Helper()
	s := server.NewMCPServer("web", "2.0", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text", mcp.Required())), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	s.AddTool(mcp.NewTool("wait"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
			"progressToken": r.Params.Meta.ProgressToken, "progress": 1, "total": 2, "message": "waiting",
		})
		if err != nil {
			return nil, err
		}
		<-ctx.Done()
		return mcp.NewToolResultText("stopped in time"), nil
	})
	return s
}

// serveWeb serves a handler and closes it with the test.
func serveWeb(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// handshaking refuses server/discover, so that a server of both eras wants the handshake.
func handshaking(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(mcp.HeaderMethod) == string(mcp.MethodServerDiscover) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func webServer(url string) *registry.Server {
	return &registry.Server{ID: "web", HTTP: &registry.HTTP{URL: url}, ByOperator: true}
}

func TestHTTPHandshakeListCallAndHeaders(t *testing.T) {
	var deleted, unauthorized atomic.Bool
	h := server.NewStreamableHTTPServer(newMCP(t))
	url := serveWeb(t, handshaking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer from-the-pool" {
			unauthorized.Store(true)
		}
		deleted.Store(deleted.Load() || r.Method == http.MethodDelete)
		h.ServeHTTP(w, r)
	})))
	s := webServer(url)
	s.HTTP.Headers = map[string]string{"Authorization": "Bearer ${env:TOKEN}"}
	c := dialServer(t, newConnector(t, Config{Environ: []string{"TOKEN=from-the-pool"}}), s)
	if got := c.Info().String(); got != "web 2.0 (MCP 2025-11-25)" {
		t.Errorf("info = %q", got)
	}
	tools, err := c.ListTools(t.Context())
	if err != nil || len(tools) != 2 {
		t.Errorf("tools = %s, %v", tools, err)
	}
	raw, err := callTool(t, c, "echo", `{"text":"hello"}`)
	if err != nil || !strings.Contains(raw, "hello") {
		t.Errorf("call = %s, %v", raw, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if unauthorized.Load() {
		t.Error("a request went out without the registered header")
	}
	if !deleted.Load() {
		t.Error("the session was not ended")
	}
}

func TestHTTPProgressAndCancel(t *testing.T) {
	c := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, handshaking(server.NewStreamableHTTPServer(newMCP(t))))))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	raw, err := c.CallTool(ctx, Call{Name: "wait", Arguments: strictjson.Checked(`{}`), Notify: func(n Notification) {
		if n.Progress != nil && n.Progress.Message == "waiting" {
			cancel(errors.New("enough"))
		}
	}})
	if err != nil || !strings.Contains(string(raw), "stopped in time") {
		t.Errorf("result = %s, %v; want the server's answer to notifications/cancelled", raw, err)
	}
}

func TestHTTPToolsListChanged(t *testing.T) {
	m := newMCP(t)
	c := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, handshaking(server.NewStreamableHTTPServer(m)))))
	changed := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(changed)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; c.ToolsVersion() == 0; i++ {
			// Again and again, until the listening stream is open.
			m.AddTool(mcp.NewTool(fmt.Sprintf("extra%d", i)), nil)
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	select {
	case <-changed:
	case <-time.After(5 * time.Second):
		t.Error("notifications/tools/list_changed did not arrive")
	}
	close(stop)
	<-changed
}

func TestHTTPErrors(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	tests := []struct {
		name string
		url  string
		kind Kind
		want string
	}{
		{"not listening", closed.URL, Unavailable, "cannot be reached"},
		{"unauthorized", serveWeb(t, status(401)), Unauthorized, "`headers`"},
		{"forbidden", serveWeb(t, status(403)), Unauthorized, "`headers`"},
		{"not found", serveWeb(t, status(404)), Unavailable, "/mcp"},
		{"method not allowed", serveWeb(t, status(405)), Unavailable, "older HTTP+SSE transport"},
		{"broken", serveWeb(t, status(500)), Unavailable, "HTTP Internal Server Error (500)"},
		{"a web page", serveWeb(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>hello</html>")
		})), Protocol, "not MCP"},
		{"broken JSON", serveWeb(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc": oops`)
		})), Protocol, "not MCP"},
		{"endless stream", serveWeb(t, http.HandlerFunc(endlessEvent)), TooLarge, "--max-message-bytes"},
		{"redirect that loses the request", serveWeb(t, http.RedirectHandler("/elsewhere", http.StatusFound)), Misconfigured, "register the address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := connect(t, newConnector(t, Config{MaxMessage: 1 << 20}), webServer(tt.url))
			if err == nil {
				t.Fatal("connected")
			}
			if e := As(err); e.Kind != tt.kind || !strings.Contains(e.Message, tt.want) {
				t.Errorf("error = %v (kind %v), want kind %v and %q", e, e.Kind, tt.kind, tt.want)
			}
		})
	}
}

// endlessEvent streams one event that never ends.
func endlessEvent(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	line := "data: " + strings.Repeat("x", 1000) + "\n"
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
}

// The error says whether the tool may have run: not if the status proves that the server refused the request.
func TestHTTPOutcomes(t *testing.T) {
	var fail atomic.Int32
	h := server.NewStreamableHTTPServer(newMCP(t))
	url := serveWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		code := int(fail.Load())
		switch isCall := strings.Contains(string(body), `"tools/call"`); {
		case isCall && code == 1:
			panic(http.ErrAbortHandler) // the connection breaks after the request arrived
		case isCall && code == 400:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32000, "message": "Bad Request: No valid session ID provided"}})
		case isCall && code > 0:
			w.WriteHeader(code)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	tests := []struct {
		code             int
		mayHaveRun, lost bool
	}{
		{1, true, true},
		{500, true, false},
		{429, false, false},
		{404, false, true},
		{400, false, true},
	}
	for _, tt := range tests {
		c := dialServer(t, newConnector(t, Config{}), webServer(url))
		fail.Store(int32(tt.code))
		_, err := callTool(t, c, "echo", `{"text":"a"}`)
		fail.Store(0)
		e := As(err)
		if err == nil || e.MayHaveRun != tt.mayHaveRun || e.Lost != tt.lost {
			t.Errorf("failure %d: %+v, want MayHaveRun %v, Lost %v", tt.code, e, tt.mayHaveRun, tt.lost)
		}
	}
}

func TestSecretsStayAtTheirOrigin(t *testing.T) {
	var reached, leaked atomic.Bool
	other := serveWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Store(true)
		leaked.Store(leaked.Load() || r.Header.Get("X-Api-Key") != "")
		w.WriteHeader(http.StatusInternalServerError)
	}))
	url := serveWeb(t, http.RedirectHandler(other, http.StatusTemporaryRedirect))
	s := webServer(url)
	s.HTTP.Headers = map[string]string{"X-Api-Key": "secret-key"}
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	if _, err := connect(t, newConnector(t, Config{AllowAddresses: []netip.Prefix{loopback}}), s); err == nil {
		t.Error("connected")
	}
	if !reached.Load() || leaked.Load() {
		t.Errorf("the other origin was reached: %v; with the header: %v", reached.Load(), leaked.Load())
	}
}

// A server that knows only 2026-07-28 has no handshake, and a call is cancelled by ending the request's stream.
func TestHTTPModernServer(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	gone := make(chan struct{})
	url := serveWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`, m.ID)
		case "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": hello\n\n")
			w.(http.Flusher).Flush()
			giveUp()
			<-r.Context().Done()
			close(gone)
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	c := dialServer(t, newConnector(t, Config{}), webServer(url))
	if got := c.Info().Protocol; got != "2026-07-28" {
		t.Errorf("protocol = %q", got)
	}
	_, err := c.CallTool(ctx, Call{Name: "x", Arguments: strictjson.Checked(`{}`), Notify: func(Notification) {}})
	if e := As(err); e.Kind != Interrupted || !e.MayHaveRun {
		t.Errorf("error = %+v", e)
	}
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the server was not told")
	}
}
