package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
)

// streams counts a server's open notification streams.
type streams struct {
	http.Handler
	open atomic.Int32
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Header.Get(mcp.HeaderMethod) == string(mcp.MethodSubscriptionsListen) {
		s.open.Add(1)
		defer s.open.Add(-1)
	}
	s.Handler.ServeHTTP(w, r)
}

func (s *streams) await(t *testing.T, n int32) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); s.open.Load() != n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d streams are open, want %d", s.open.Load(), n)
		}
	}
}

// A resting connection has no open stream, but can be probed. Wake opens the stream again and outdates the tools, which may have
// changed unnoticed. This holds in revisions with a session and without.
func TestRest(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"2026-07-28": func(h http.Handler) http.Handler { return h },
		"2025-11-25": handshaking,
	} {
		t.Run(name, func(t *testing.T) {
			mcps := newMCP(t)
			count := &streams{Handler: wrap(server.NewStreamableHTTPServer(mcps))}
			web := httptest.NewServer(count)
			t.Cleanup(web.Close)
			c := dialServer(t, newConnector(t, Config{}), webServer(web.URL))
			if c.Info().Protocol != name {
				t.Fatalf("the connection speaks %s", c.Info().Protocol)
			}
			count.await(t, 1)

			for range 2 {
				for range 2 { // a second Rest changes nothing
					if !c.Rest() {
						t.Fatal("Rest returned false")
					}
				}
				count.await(t, 0)
				if err := c.Probe(t.Context()); err != nil {
					t.Errorf("a probe at rest: %v", err)
				}
				before := c.ToolsVersion()
				c.Wake()
				if c.ToolsVersion() == before {
					t.Error("Wake does not outdate the tools")
				}
				count.await(t, 1)
			}
			changed := make(chan struct{}, 10)
			c.OnChange(func() { changed <- struct{}{} })
			// Again and again: the server may not write yet to a stream that was just opened.
			tick, late := time.NewTicker(20*time.Millisecond), time.After(20*time.Second)
			defer tick.Stop()
			for told := false; !told; {
				mcps.AddTool(mcp.NewTool(fmt.Sprintf("late%d", time.Now().UnixNano())), nil)
				select {
				case <-changed:
					told = true
				case <-tick.C:
				case <-late:
					t.Fatal("no change was announced")
				}
			}
			c.Rest()
			count.await(t, 0)
		})
	}
}

// Rest returns false for a child, which has no stream to close, and over SSE, whose only stream carries the answers.
func TestNoRest(t *testing.T) {
	for _, mode := range []string{mcptest.Good, mcptest.Modern} {
		if dial(t, mode).Rest() {
			t.Errorf("a child (%s) rests", mode)
		}
	}
	sse := server.NewSSEServer(newMCP(t))
	web := httptest.NewServer(sse)
	t.Cleanup(web.Close)
	s := webServer(web.URL + "/sse")
	s.HTTP.SSE = true
	c := dialServer(t, newConnector(t, Config{}), s)
	if c.Rest() {
		t.Error("the stream of all answers was closed")
	}
	_ = c.Close()
}

// The inputs of a tool that are mirrored into headers are remembered until the tool is listed without such inputs.
func TestReadMirrors(t *testing.T) {
	c := newConnector(t, Config{}).newClient(&registry.Server{ID: "s"}, modern)
	for _, tt := range []struct {
		tool string
		want int
	}{
		{`{"name":"a"}`, 0},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}`, 1},
		{`{"name":"a"}`, 0},
	} {
		if got := c.readMirrors(t.Context(), []json.RawMessage{[]byte(tt.tool)}); len(got) != 1 || len(*c.mirrors.Load()) != tt.want {
			t.Errorf("%s: %s, %v", tt.tool, got, *c.mirrors.Load())
		}
	}
}
