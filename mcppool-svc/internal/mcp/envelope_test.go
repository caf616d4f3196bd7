package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
)

// TestHTTPEnvelopeTwice: an answer that says two things is refused over HTTP as on stdio, as a body and as an event.
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
					head, tail, _ := strings.Cut(answer, ",") // of two lines of data
					answer = "id: 1\ndata: " + head + ",\ndata: " + tail + "\n\n"
				}
				_, _ = io.WriteString(w, answer)
			}))))
			_, err := callTool(t, c, "echo", `{"text":"x"}`)
			if e := As(err); err == nil || e.Kind != Protocol || !e.Ended || !e.Sent {
				t.Errorf("error = %v", err)
			}
		})
	}
}

// TestCheckedBody: what can stay, stays as it is.
func TestCheckedBody(t *testing.T) {
	good := ": ok\n\nid: 7\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\nretry: 5\n\ndata: {\"id\":2}"
	for _, text := range []string{good, strings.ReplaceAll(good, "\n", "\r\n"), ""} {
		b := &checkedBody{ReadCloser: io.NopCloser(strings.NewReader(text)), judge: newJudge(10), x: &exchange{}, events: true}
		if got, err := io.ReadAll(b); err != nil || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
	bad := "id: 7\ndata: " + mcptest.Envelope(json.RawMessage("1")) + "\n\n"
	got, err := io.ReadAll(&checkedBody{ReadCloser: io.NopCloser(strings.NewReader(bad)), judge: newJudge(10), x: &exchange{}, events: true})
	if text := string(got); err != nil || strings.Contains(text, "evil") || !strings.HasPrefix(text, "id: 7\ndata: {") || !strings.HasSuffix(text, "}\n\n") {
		t.Errorf("%q became %q, %v", bad, got, err)
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

// A result that is wanted is kept as it came, and mcp-go sees that there was one; errors, other answers and second ones go their way.
func TestCheckedBodyKeepsTheResult(t *testing.T) {
	const id = "1073741825"
	answer := func(id, more string) string { return `{"jsonrpc":"2.0","id":` + id + `,` + more + `}` }
	empty := string(emptyAnswer([]byte(id)))
	for name, tt := range map[string]struct {
		text, passed, kept string
		events             bool
	}{
		"a body":           {answer(id, `"result":{"a": 9007199254740993 }`), empty, `{"a": 9007199254740993 }`, false},
		"an event":         {"id: 5\ndata: " + answer(id, `"result":[1]`) + "\n\n", "id: 5\ndata: " + empty + "\n", `[1]`, true},
		"progress first":   {"data: {\"method\":\"m\"}\n\ndata: " + answer(id, `"result":1`) + "\n\n", "data: {\"method\":\"m\"}\n\ndata: " + empty + "\n", `1`, true},
		"two answers":      {"data: " + answer(id, `"result":1`) + "\n\ndata: " + answer(id, `"result":2`) + "\n\n", strings.Repeat("data: "+empty+"\n", 2), `1`, true},
		"an error":         {answer(id, `"error":{"code":1,"message":"no"}`), answer(id, `"error":{"code":1,"message":"no"}`), "", false},
		"somebody else's":  {answer("7", `"result":1`), answer("7", `"result":1`), "", false},
		"the server's own": {answer(id, `"method":"m","result":1`), answer(id, `"method":"m","result":1`), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			x := &exchange{wants: []byte(id)}
			got, err := io.ReadAll(&checkedBody{ReadCloser: io.NopCloser(strings.NewReader(tt.text)), judge: newJudge(10), x: x, events: tt.events})
			if err != nil || string(got) != tt.passed || string(x.kept) != tt.kept {
				t.Errorf("passed %q, kept %s, %v; want %q, %s", got, x.kept, err, tt.passed, tt.kept)
			}
			x.answer(json.RawMessage("{}"), nil)
			if r := x.report(); tt.kept != "" && string(r.result) != tt.kept {
				t.Errorf("the result is %s", r.result)
			}
		})
	}
}
