package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/serve"
	"pawl.dev/services/strictjson"
)

// TestLargeResultsWait shows that at most as many large results are read at once as the budget has room for, and that all of them arrive (issue 13,
// results). All servers answer at once; each call holds its part of the budget until the test releases it.
func TestLargeResultsWait(t *testing.T) {
	t.Parallel()
	const limit, size, calls = 4 << 20, 3 << 20, 8
	for _, kind := range []string{"stdio", jsonType, eventsType} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			budget := serve.NewBudget("test", 2*limit)
			connector := newConnector(t, Config{MaxMessage: limit, Large: budget})
			server, tool := &registry.Server{ID: "s", Stdio: mcptest.Stdio("normal"), Isolation: registry.Shared}, "large"
			if kind != "stdio" {
				server.Stdio, server.HTTP, tool = nil, &registry.HTTP{URL: largeServer(t, kind, size)}, "big"
			}
			held := make(chan *jsonrpc.Held, calls)
			var holding, most, paused, resumed atomic.Int64
			results := make(chan error, calls)
			for range calls {
				c := dialServer(t, connector, server)
				go func() {
					pause := func() func() {
						paused.Add(1)
						return func() { resumed.Add(1) }
					}
					raw, err := c.CallTool(context.Background(), Call{Name: tool, Arguments: strictjson.Checked(fmt.Sprintf(`{"n":%d}`, size)), Pause: pause, Hold: func(h *jsonrpc.Held) {
						if n := holding.Add(1); n > most.Load() {
							most.Store(n)
						}
						held <- h
					}})
					if err == nil && len(raw) < size {
						err = fmt.Errorf("the result has %d bytes", len(raw))
					}
					results <- err
				}()
			}
			for range calls {
				h := <-held
				if err := <-results; err != nil {
					t.Error(err)
				}
				holding.Add(-1)
				h.Release()
			}
			if n := most.Load(); n > 2 {
				t.Errorf("%d results hold a part of the budget at once; it has room for 2", n)
			}
			if paused.Load() != calls || resumed.Load() != calls {
				t.Errorf("%d calls were paused while their messages waited, and %d resumed; want %d", paused.Load(), resumed.Load(), calls)
			}
			all, err := budget.Acquire(t.Context(), "", 2*limit)
			if err != nil {
				t.Fatalf("a part of the budget was not given back: %v", err)
			}
			all.Release()
		})
	}
}

// largeServer is a server whose only tool returns a text of so many bytes.
func largeServer(t *testing.T, kind string, size int) string {
	text := strings.Repeat("x", size)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		body, _ := io.ReadAll(bufio.NewReader(r.Body))
		if r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var answer string
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		case "tools/call":
			answer = `"result":{"content":[{"type":"text","text":"` + text + `"}]}`
		case "notifications/initialized", "notifications/cancelled":
			w.WriteHeader(http.StatusAccepted)
			return
		default:
			answer = `"error":{"code":-32601,"message":"no such method"}`
		}
		answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
		w.Header().Set("Content-Type", kind)
		if kind == eventsType {
			answer = "data: " + answer + "\n\n"
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestAdmitEnds shows that a message that does not fit waits no longer than its context, and that a larger message than the budget is read alone.
func TestAdmitEnds(t *testing.T) {
	t.Parallel()
	budget := serve.NewBudget("test", 100)
	first := jsonrpc.Admit(t.Context(), budget, "", 100)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if jsonrpc.Admit(ctx, budget, "", 100) != nil {
		t.Error("a message is admitted although the budget is used up")
	}
	first.Release()
	first.Release()
	if jsonrpc.Admit(t.Context(), budget, "", 1000) == nil {
		t.Error("a message larger than the budget is not read alone")
	}
}
