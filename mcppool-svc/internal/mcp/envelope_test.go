package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
)

// TestHTTPEnvelopeTwice: an answer with two results is refused over HTTP as on stdio, as a body and as an event.
func TestHTTPEnvelopeTwice(t *testing.T) {
	for _, kind := range []string{"application/json", "text/event-stream"} {
		t.Run(kind, func(t *testing.T) {
			h := server.NewStreamableHTTPServer(newMCP(t))
			c := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				var m struct {
					ID     json.RawMessage
					Method string
				}
				if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
					r.Body = io.NopCloser(strings.NewReader(string(body)))
					h.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", kind)
				answer := mcptest.Envelope(m.ID)
				if kind != "application/json" {
					head, tail, _ := strings.Cut(answer, ",") // an event with two lines of data
					answer = "id: 1\ndata: " + head + ",\ndata: " + tail + "\n\n"
				}
				_, _ = io.WriteString(w, answer)
			}))))
			_, err := callTool(t, c, "echo", `{"text":"x"}`)
			if e := As(err); err == nil || e.Kind != Protocol || !e.Ended || !e.MayHaveRun {
				t.Errorf("error = %v", err)
			}
		})
	}
}

// TestRootsOverHTTP: a server asks for the roots in the middle of a call, over streamable HTTP.
func TestRootsOverHTTP(t *testing.T) {
	s := newMCP(t)
	h := server.NewStreamableHTTPServer(s)
	web := webServer(serveWeb(t, handshaking(h)))
	web.Roots = []string{"file:///srv/a"}
	s.AddTool(mcp.NewTool("roots"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := s.RequestRoots(ctx, mcp.ListRootsRequest{})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(result.Roots[0].URI), nil
	})
	c := dialServer(t, newConnector(t, Config{}), web)
	if got := say(t, c, "roots", `{}`); got != "file:///srv/a" {
		t.Errorf("the server is told %s", got)
	}
	stdio := dialServer(t, newConnector(t, Config{}), &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mcptest.Offering), Roots: web.Roots})
	if got := say(t, stdio, "ask", `{"method":"roots/list"}`); got != `{"roots":[{"uri":"file:///srv/a","name":"a"}]}` {
		t.Errorf("a child is told %s", got)
	}
	none := dial(t, mcptest.Offering)
	if got := say(t, none, "ask", `{"method":"roots/list"}`); !strings.Contains(got, `"code"`) {
		t.Errorf("without roots the server is told %s", got)
	}
}

// TestCutKeepsCharactersWhole: a text that is cut stays valid UTF-8, which protobuf requires.
func TestCutKeepsCharactersWhole(t *testing.T) {
	if got := Cut("a" + strings.Repeat("é", maxNote)); !utf8.ValidString(got) || !strings.HasSuffix(got, "é… (cut off)") {
		t.Errorf("the text ends with %q", got[len(got)-30:])
	}
}
