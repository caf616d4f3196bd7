package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// recorder records the methods of requests and passes them to Handler.
type recorder struct {
	http.Handler
	mu      sync.Mutex
	methods []string
}

func (l *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Method string }
	if json.Unmarshal(body, &m) == nil && m.Method != "" && !strings.HasPrefix(m.Method, "notifications/") && m.Method != string(mcp.MethodSubscriptionsListen) {
		l.mu.Lock()
		l.methods = append(l.methods, m.Method)
		l.mu.Unlock()
	}
	l.mu.Lock()
	h := l.Handler
	l.mu.Unlock()
	h.ServeHTTP(w, r)
}

// become replaces Handler, also while a stream of the earlier one is open.
func (l *recorder) become(h http.Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Handler = h
}

// take returns the recorded methods and forgets them.
func (l *recorder) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.methods = nil }()
	return l.methods
}

// answering answers everything with one JSON-RPC message; %s is the request's id.
func answering(status int, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, message, m.ID)
	})
}

// before answers discovery in one way and leaves the rest to a server.
func before(discovery, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(mcp.HeaderMethod) == string(mcp.MethodServerDiscover) {
			discovery.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// Over HTTP server/discover comes first. A server that refuses it, in whatever way, gets initialize, and the next connection
// begins with what worked.
func TestDiscoveryOverHTTP(t *testing.T) {
	const discover, initialize = "server/discover", "initialize"
	both := func() http.Handler { return server.NewStreamableHTTPServer(newMCP(t)) }
	tests := []struct {
		name          string
		h             http.Handler
		first, second []string
		protocol      string
	}{
		{"both", both(), []string{discover}, []string{discover}, "2026-07-28"},
		{"status 400", handshaking(both()), []string{discover, initialize}, []string{initialize}, "2025-11-25"},
		{"status 404", before(http.NotFoundHandler(), both()), []string{discover, initialize}, []string{initialize}, "2025-11-25"},
		{"status 500", before(answering(500, ""), both()), []string{discover, initialize}, []string{initialize}, "2025-11-25"},
		{"method not found", before(answering(200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`), both()),
			[]string{discover, initialize}, []string{initialize}, "2025-11-25"},
		{"no session", before(answering(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`), both()),
			[]string{discover, initialize}, []string{initialize}, "2025-11-25"},
		{"another revision", before(answering(400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}}`), both()),
			[]string{discover, initialize}, []string{initialize}, "2025-11-25"},
		{"yes to everything", before(answering(200, `{"jsonrpc":"2.0","id":%s,"result":{}}`), both()),
			[]string{discover, initialize}, []string{initialize}, "2025-11-25"},
		{"a web page", before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }), both()),
			[]string{discover, initialize}, []string{initialize}, "2025-11-25"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			heard := &recorder{Handler: tt.h}
			c, s := newConnector(t, Config{TransportHints: newMemory()}), webServer(serveWeb(t, heard))
			for _, want := range [][]string{tt.first, tt.second} {
				conn := dialServer(t, c, s)
				if got := heard.take(); !slices.Equal(got, want) || conn.Info().Protocol != tt.protocol {
					t.Errorf("asked for %v, and speaks %s; want %v, %s", got, conn.Info().Protocol, want, tt.protocol)
				}
			}
		})
	}
}

// A server that refuses the very revision that it names gets server/discover once more, not for ever.
func TestServerThatChangesItsMindAboutRevisions(t *testing.T) {
	refuse := answering(400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`)
	var once sync.Once
	heard := &recorder{}
	heard.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := http.Handler(server.NewStreamableHTTPServer(newMCP(t)))
		once.Do(func() { h = refuse })
		h.ServeHTTP(w, r)
	})
	conn := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, heard)))
	if got := heard.take(); conn.Info().Protocol != "2026-07-28" || len(got) != 2 {
		t.Errorf("asked for %v, and speaks %s", got, conn.Info().Protocol)
	}
	heard.become(refuse)
	_, err := connect(t, newConnector(t, Config{}), webServer(serveWeb(t, heard)))
	if got := heard.take(); err == nil || len(got) != 3 {
		t.Errorf("asked for %v: %v", got, err)
	}
}

// A server that wants a credential, or is too busy, does not get initialize as well.
func TestNoOtherEraWithoutCredential(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests} {
		heard := &recorder{Handler: answering(status, "")}
		_, err := connect(t, newConnector(t, Config{}), webServer(serveWeb(t, heard)))
		if got := heard.take(); err == nil || len(got) != 1 {
			t.Errorf("%d: asked for %v: %v", status, got, err)
		}
	}
}

// A hint that no longer works, however the server refuses it, does not prevent a connection.
func TestOutdatedTransportHint(t *testing.T) {
	for name, no := range map[string]http.HandlerFunc{
		"status 400": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"status 500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a web page": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			modernOnly := before(server.NewStreamableHTTPServer(newMCP(t)), no)
			heard := &recorder{Handler: handshaking(server.NewStreamableHTTPServer(newMCP(t)))}
			c, s := newConnector(t, Config{TransportHints: newMemory()}), webServer(serveWeb(t, heard))
			dialServer(t, c, s)
			heard.become(modernOnly)
			heard.take()
			if conn := dialServer(t, c, s); conn.Info().Protocol != "2026-07-28" {
				t.Errorf("speaks %s after %v", conn.Info().Protocol, heard.take())
			}
		})
	}
}

// A server that learned newer revisions, and still knows the older ones, gets server/discover again once the hint is gone.
func TestUpgradedServerIsAskedAgain(t *testing.T) {
	memory := newMemory()
	heard := &recorder{Handler: handshaking(server.NewStreamableHTTPServer(newMCP(t)))}
	c, s := newConnector(t, Config{TransportHints: memory}), webServer(serveWeb(t, heard))
	dialServer(t, c, s)
	heard.become(server.NewStreamableHTTPServer(newMCP(t)))
	if conn := dialServer(t, c, s); conn.Info().Protocol != "2025-11-25" {
		t.Errorf("speaks %s before", conn.Info().Protocol)
	}
	clear(memory.hints)
	if conn := dialServer(t, c, s); conn.Info().Protocol != "2026-07-28" {
		t.Errorf("speaks %s after", conn.Info().Protocol)
	}
}

// SEP-2243: over HTTP, in revisions that mirror inputs into headers, a tool with annotations that break the rules is left
// out, and the others can be called.
func TestToolsThatCannotBeMirrored(t *testing.T) {
	property := func(annotation string) string {
		return `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":` + annotation + `}}}`
	}
	tools := fmt.Sprintf(`[{"name":"good","inputSchema":%s},{"name":"empty","inputSchema":%s},{"name":"space","inputSchema":%s},{"name":"plain","inputSchema":{"type":"object"}}]`,
		property(`"Region"`), property(`""`), property(`"My Region"`))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result := `{"resultType":"complete","tools":` + tools + `}`
		if r.Header.Get(mcp.HeaderMethod) == string(mcp.MethodServerDiscover) {
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
		}
		if r.Header.Get(mcp.HeaderMethod) == string(mcp.MethodToolsCall) {
			result = `{"content":[{"type":"text","text":"` + r.Header.Get("Mcp-Param-Region") + `"}]}`
		}
		answering(200, `{"jsonrpc":"2.0","id":%s,"result":`+result+`}`).ServeHTTP(w, r)
	})
	conn := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, h)))
	if got := toolNames(t, conn); !slices.Equal(got, []string{"good", "plain"}) {
		t.Errorf("tools = %v", got)
	}
	if got, err := callTool(t, conn, "good", `{"a":"eu"}`); err != nil || !strings.Contains(got, `"eu"`) {
		t.Errorf("call = %s, %v; want the input in a header", got, err)
	}
}

// A server of 2026-07-28 without tools answers 404 to tools/list: it does not know the method, and the connection stands.
func TestModernServerWithoutTools(t *testing.T) {
	conn := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, server.NewStreamableHTTPServer(server.NewMCPServer("none", "1")))))
	if got := toolNames(t, conn); len(got) > 0 || conn.Info().Protocol != "2026-07-28" {
		t.Errorf("tools = %v of %v", got, conn.Info())
	}
}

func toolNames(t *testing.T, conn Client) (names []string) {
	t.Helper()
	tools, err := conn.ListTools(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range tools {
		var tool struct{ Name string }
		if err := json.Unmarshal(raw, &tool); err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}
