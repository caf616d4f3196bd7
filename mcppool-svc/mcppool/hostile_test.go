package mcppool

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// Limits while a server is hostile.
const (
	hostileHeap       = 256 << 20 // bytes in all
	hostileGoroutines = 300       // beyond those before
)

// besides runs hostile, calls of ann's to a hostile server, while bob calls a good one. It checks that bob's calls succeed, and
// that heap and goroutines stay within the limits.
func besides(t *testing.T, s *suite, hostile func(t *testing.T, ann client)) {
	t.Helper()
	warm(t, s)
	goroutines := runtime.NumGoroutine()
	stop := make(chan struct{})
	var healthy, peak atomic.Int64
	var others sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer others.Wait()
	defer cancel() // first: it ends a call of bob's that hangs
	others.Go(func() {
		for {
			if o := invokeCtx(ctx, s.as("bob"), &mcppoolv1.CallToolRequest{McpId: "good", Name: "info"}); o.err != nil {
				t.Errorf("a call of bob's on the good server: %v", o.err)
				return
			}
			healthy.Add(1)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), int64(m.HeapAlloc)))
			if n := runtime.NumGoroutine(); n > goroutines+hostileGoroutines {
				t.Errorf("%d goroutines", n)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	hostile(t, s.as("ann"))
	seen := healthy.Load()
	// Bob's calls go on afterwards.
	for deadline := time.After(20 * time.Second); healthy.Load() < seen+3; {
		select {
		case <-deadline:
			t.Error("bob's calls have stopped")
			return
		case <-time.After(time.Millisecond):
		}
	}
	close(stop)
	others.Wait()
	if p := peak.Load(); p > hostileHeap {
		t.Errorf("the heap grew to %d MiB", p>>20)
	}
}

// warm makes bob's connection.
func warm(t *testing.T, s *suite) {
	t.Helper()
	if o := invoke(t, s.as("bob"), &mcppoolv1.CallToolRequest{McpId: "good", Name: "info"}); o.err != nil {
		t.Fatal(o.err)
	}
}

// hostileConfig has a good server and one for each hostile mode.
func hostileConfig(t *testing.T, url string) string {
	t.Helper()
	servers := make(map[string]any)
	for _, mode := range []string{
		mcptest.Good, mcptest.Hostile, mcptest.ManyTools, mcptest.FarRef, mcptest.UnreadStdin, mcptest.WrongID, mcptest.TwoKeys, mcptest.Twins,
	} {
		child := mcptest.Stdio(mode)
		child.Env["SECRET_TOKEN"], child.Env["FAR_REF"] = "hunter2-hunter2", url
		servers[mode] = map[string]any{"command": child.Command, "env": child.Env}
	}
	return writeConfig(t, map[string]any{"mcpServers": servers})
}

// Each line is one way of a server to do harm: the call gets a clear error with its outcome, and other users and servers notice
// nothing.
func TestHostileServers(t *testing.T) {
	var fetched atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	defer web.Close()
	s := start(t, Config{MCPConfigs: []string{hostileConfig(t, web.URL)}, MaxMessageBytes: 1 << 20, MaxToolResultBytes: 512 << 10})
	for _, tt := range []struct {
		name, server, tool, input   string
		reason, outcome, text, fine string // fine: the text of the result, instead of an error
		cut                         bool   // the result is cut off
		alive                       bool   // the connection stays usable
	}{
		{name: "endless line", server: "hostile", tool: "endless", reason: "TOO_LARGE", outcome: "KNOWN", text: "ask the tool for less"},
		{name: "gigantic result", server: "hostile", tool: "gigantic", input: `{"n":40}`, reason: "TOO_LARGE", outcome: "KNOWN", text: "ask the tool for less", alive: true},
		{name: "result over the cap", server: "hostile", tool: "large", input: `{"n":600000}`, cut: true, alive: true},
		{name: "deep JSON", server: "hostile", tool: "deep", reason: "MCP_PROTOCOL_ERROR", outcome: "KNOWN", text: "256 levels", alive: true},
		{name: "duplicate keys", server: "hostile", tool: "twice", reason: "MCP_PROTOCOL_ERROR", outcome: "KNOWN", text: "comes twice", alive: true},
		{name: "keys in two cases", server: "hostile", tool: "lettercase", reason: "MCP_PROTOCOL_ERROR", outcome: "KNOWN", text: "comes twice", alive: true},
		{name: "envelope in two cases", server: "hostile", tool: "envelope", reason: "MCP_PROTOCOL_ERROR", outcome: "KNOWN", text: "letter case", alive: true},
		{name: "answers of strangers", server: "hostile", tool: "strangers", fine: "mine", alive: true},
		{name: "questions without end", server: "hostile", tool: "ask", fine: "asked", alive: true},
		{name: "secrets in errors", server: "hostile", tool: "leak", reason: "TOOL_EXECUTION_FAILED", outcome: "KNOWN", text: "login failed with ***", alive: true},
		{name: "exit in the middle", server: "hostile", tool: "crash", reason: "MCP_SERVER_UNAVAILABLE", outcome: "UNKNOWN", text: "exit status 7"},
		{name: "notification flood", server: "hostile", tool: "floodforever", fine: "flooding"},
		{name: "wrong ids", server: "wrongid", tool: "echo", input: `{"text":"a"}`, reason: "TIMEOUT", outcome: "UNKNOWN", text: "did not answer", alive: true},
		{name: "unread stdin", server: "unreadstdin", tool: "info"}, // the caller's deadline ends the call: only an error is expected
		{name: "100,000 tools", server: "manytools", tool: "t1", reason: "TOO_LARGE", outcome: "NOT_EXECUTED", text: "more than"},
		{name: "keys of a tool twice", server: "twokeys", tool: "safe", reason: "MCP_PROTOCOL_ERROR", outcome: "NOT_EXECUTED", text: "comes twice"},
		{name: "two tools of a name", server: "twins", tool: "a", reason: "MCP_PROTOCOL_ERROR", outcome: "NOT_EXECUTED", text: "two tools"},
		{name: "schema on the network", server: "farref", tool: "far", reason: "MCP_PROTOCOL_ERROR", outcome: "NOT_EXECUTED", text: "schema"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			besides(t, s, func(t *testing.T, ann client) {
				if tt.server == mcptest.Hostile || tt.server == mcptest.WrongID { // connected, so that a short timeout is the call's
					listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: tt.server})
				}
				req := &mcppoolv1.CallToolRequest{McpId: tt.server, Name: tt.tool, InputJson: tt.input}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if tt.reason == "TIMEOUT" {
					req.Timeout = durationpb.New(500 * time.Millisecond)
				}
				if tt.server == mcptest.UnreadStdin {
					ctx, cancel = context.WithTimeout(t.Context(), time.Second)
					defer cancel()
				}
				o := invokeCtx(ctx, ann, req)
				switch {
				case tt.server == mcptest.UnreadStdin:
					// The caller's deadline ends first: tools/list may take a minute.
					if o.err == nil {
						t.Error("an answer came")
					}
				case tt.cut:
					if o.err != nil || !o.result.GetTruncated() || !strings.Contains(o.text(), "cut off: ") || len(o.text()) > 1<<19+200 {
						t.Errorf("answer: %d bytes, truncated %v, %v", len(o.text()), o.result.GetTruncated(), o.err)
					}
				case tt.fine != "":
					if o.err != nil || o.text() != tt.fine {
						t.Errorf("answer: %q, %v", o.text(), o.err)
					}
				default:
					wantReason(t, o.err, tt.reason, tt.text)
					if o.outcome() != tt.outcome {
						t.Errorf("outcome %s, want %s", o.outcome(), tt.outcome)
					}
				}
				if o.err != nil && strings.Contains(o.err.Error(), "hunter2") {
					t.Errorf("the error shows a secret: %v", o.err)
				}
				if tt.alive && tt.server == mcptest.Hostile {
					if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: tt.server, Name: "info"}); o.err != nil {
						t.Errorf("the next call on the same server: %v", o.err)
					}
				}
			})
			// Another user of the same server has another process.
			if tt.server == mcptest.Hostile {
				if o := invoke(t, s.as("op"), &mcppoolv1.CallToolRequest{McpId: tt.server, Name: "info"}); o.err != nil {
					t.Errorf("another user of the same server: %v", o.err)
				}
			}
			if !tt.alive {
				deactivate(t, s, "ann", tt.server)
			}
		})
	}
	if n := fetched.Load(); n != 0 {
		t.Errorf("the schema's reference was followed %d times", n)
	}
}

// deactivate ends a user's connection to a server, and activates it again for the next.
func deactivate(t *testing.T, s *suite, user, id string) {
	t.Helper()
	if _, err := s.as(user).DeactivateMcpServer(t.Context(), &mcppoolv1.DeactivateMcpServerRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.as(user).ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
}

// A hostile server over HTTP.
func TestHostileWeb(t *testing.T) {
	release := make(chan struct{})
	attack := map[string]func(w http.ResponseWriter, id string){
		"endless": func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, err := w.Write([]byte("data: ")); err == nil; {
				_, err = w.Write([]byte(strings.Repeat("x", 1<<16)))
			}
		},
		"events": func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			const note = `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n\n"
			for _, err := w.Write([]byte(note)); err == nil; {
				_, err = w.Write([]byte(strings.Repeat(note, 100)))
			}
		},
		"gigantic": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, err := w.Write([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"`))
			for i := 0; i < 1024 && err == nil; i++ {
				_, err = w.Write([]byte(strings.Repeat("x", 1<<20)))
			}
		},
		"slow": func(w http.ResponseWriter, _ string) { <-release },
		"twice": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[],"structuredContent":{"a":{"b":1,"b":2}}}}`))
		},
		"wrongid": func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":424242,"result":{"content":[]}}`))
		},
		"leak": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32000,"message":"bad key hunter2-hunter2"}}`))
		},
	}
	web := httptest.NewServer(hostileHandler(attack))
	defer web.Close()
	defer close(release)
	child := mcptest.Stdio(mcptest.Good)
	s := start(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{
		"web":  map[string]any{"url": web.URL, "headers": map[string]string{"X-Key": "hunter2-hunter2"}},
		"good": map[string]any{"command": child.Command, "env": child.Env},
	}})}, MaxMessageBytes: 1 << 20})
	for tool, want := range map[string]struct{ reason, outcome, text string }{
		"endless":  {"TOO_LARGE", "UNKNOWN", "ask the tool for less"},
		"gigantic": {"TOO_LARGE", "KNOWN", "ask the tool for less"},
		"events":   {"TIMEOUT", "UNKNOWN", "did not answer"},
		"slow":     {"TIMEOUT", "UNKNOWN", "did not answer"},
		"twice":    {"MCP_PROTOCOL_ERROR", "KNOWN", "comes twice"},
		"wrongid":  {"MCP_PROTOCOL_ERROR", "UNKNOWN", "id"},
		"leak":     {"TOOL_EXECUTION_FAILED", "KNOWN", "bad key ***"},
	} {
		t.Run(tool, func(t *testing.T) {
			besides(t, s, func(t *testing.T, ann client) {
				req := &mcppoolv1.CallToolRequest{McpId: "web", Name: tool}
				if want.reason == "TIMEOUT" {
					req.Timeout = durationpb.New(time.Second)
				}
				o := invoke(t, ann, req)
				wantReason(t, o.err, want.reason, want.text)
				if o.outcome() != want.outcome {
					t.Errorf("outcome %s, want %s", o.outcome(), want.outcome)
				}
				if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "web", Name: "fine"}); o.err != nil {
					t.Errorf("the next call: %v", o.err)
				}
			})
		})
	}
}

// hostileHandler is an MCP server over HTTP with a tool for each attack, and the harmless tool `fine`.
func hostileHandler(attack map[string]func(w http.ResponseWriter, id string)) http.Handler {
	var tools []string
	for name := range attack {
		tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	tools = append(tools, `{"name":"fine","inputSchema":{"type":"object"}}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := `{"content":[]}`
		switch {
		case len(m.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}`
		case m.Method == "tools/list":
			result = `{"tools":[` + strings.Join(tools, ",") + `]}`
		case attack[m.Params.Name] != nil:
			attack[m.Params.Name](w, string(m.ID))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`))
	})
}
