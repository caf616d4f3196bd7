package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcpclient "github.com/mark3labs/mcp-go/client"
	mcptransport "github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// A tool call has the same content as mcp-go's, on one line, even for readers that end lines at U+2028 and U+2029.
func TestToolRequest(t *testing.T) {
	all := map[string]Call{
		"plain":          {Name: "a/\"b\"", Arguments: parsed(t, `{"x":9007199254740993,"y":"<é>"}`), Meta: map[string]string{"k": "<v>", "l": "\xff"}},
		"without meta":   {Name: "a", Arguments: parsed(t, `{}`)},
		"lines":          {Name: "a\n", Arguments: parsed(t, "{\r\n \"x\": 1\n}")},
		"JavaScript's":   {Name: "\u2028", Arguments: parsed(t, "{\"x\":\"\u2028 \u2029\"}")},
		"to run as task": {Name: "a", Arguments: parsed(t, `{}`), Task: true, TaskTTL: time.Minute},
	}
	for _, mode := range []string{mcptest.Good, mcptest.Modern} {
		c := dial(t, mode).(*client)
		c.canTask = true
		for name, call := range all {
			t.Run(mode+", "+name, func(t *testing.T) {
				x, err := c.toolRequest(&running{call: call, token: "7"}, round{})
				if err != nil {
					t.Fatal(err)
				}
				want := libraryWrites(t, c, call)
				want.ID = mcp.NewRequestId(x.id)
				text, err := json.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(decoded(t, text), decoded(t, x.text)); d != "" {
					t.Errorf("(-mcp-go +got):\n%s", d)
				}
				if line := strings.TrimSuffix(string(x.text), "\n"); strings.ContainsAny(line, "\r\n\u2028\u2029") || line == string(x.text) {
					t.Errorf("not one line: %q", x.text)
				}
			})
		}
	}
}

func parsed(t *testing.T, text string) strictjson.Document {
	t.Helper()
	doc, err := strictjson.Parse(text, strictjson.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// library is a transport that records what mcp-go's client writes.
type library struct {
	mcptransport.Interface
	last mcptransport.JSONRPCRequest
}

func (*library) Start(context.Context) error                                     { return nil }
func (*library) SetNotificationHandler(func(mcp.JSONRPCNotification))            {}
func (*library) SendNotification(context.Context, mcp.JSONRPCNotification) error { return nil }

func (l *library) SendRequest(_ context.Context, r mcptransport.JSONRPCRequest) (*mcptransport.JSONRPCResponse, error) {
	l.last = r
	result := `{"protocolVersion":"2025-11-25","supportedVersions":["2026-07-28"],"capabilities":{},"serverInfo":{"name":"s","version":"1"},"content":[]}`
	return mcptransport.NewJSONRPCResultResponse(r.ID, json.RawMessage(result)), nil
}

// libraryWrites returns the request that mcp-go's client sends for a call.
func libraryWrites(t *testing.T, c *client, call Call) mcptransport.JSONRPCRequest {
	t.Helper()
	record := &library{}
	theirs := mcpclient.NewClient(record, mcpclient.WithProtocolVersion(string(c.era)))
	var begin mcp.InitializeRequest
	begin.Params.ClientInfo, begin.Params.Capabilities = mcp.Implementation{Name: "pawl", Version: c.version}, c.capabilities()
	if err := theirs.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Initialize(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	if c.serverCan.Logging != nil {
		//nolint:staticcheck // SetLevel is deprecated, but the pool still asks for logs
		_ = theirs.SetLevel(t.Context(), mcp.SetLevelRequest{Params: mcp.SetLevelParams{Level: mcp.LoggingLevelInfo}})
	}
	meta := &mcp.Meta{ProgressToken: "7", AdditionalFields: map[string]any{}}
	for key, value := range call.Meta {
		meta.AdditionalFields[key] = value
	}
	params := mcp.CallToolParams{Name: call.Name, RawArguments: json.RawMessage(call.Arguments.String()), Meta: meta}
	if call.Task {
		ttl := call.TaskTTL.Milliseconds()
		params.Task = &mcp.TaskParams{TTL: &ttl}
	}
	_, _ = theirs.CallTool(t.Context(), mcp.CallToolRequest{Params: params})
	return record.last
}

// A later round carries the answers, and the server's state unchanged.
func TestToolRequestOfALaterRound(t *testing.T) {
	c, state := dial(t, mcptest.Modern).(*client), "s\n\u2028\"é"
	next := round{responses: map[string]json.RawMessage{"q": json.RawMessage(`{"action":"accept"}`)}, state: &state}
	x, err := c.toolRequest(&running{call: Call{Name: "a"}, token: "7"}, next)
	if err != nil {
		t.Fatal(err)
	}
	params := decoded(t, x.text).(map[string]any)["params"].(map[string]any)
	delete(params, "_meta")
	want := map[string]any{
		"name": "a", "arguments": map[string]any{}, "requestState": state,
		"inputResponses": map[string]any{"q": map[string]any{"action": "accept"}},
	}
	if d := cmp.Diff(want, any(params).(map[string]any)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// childPipes is a child's end of its stdin and stdout.
type childPipes struct {
	stdin  *os.File
	stdout *io.PipeWriter
}

// overPipes is a connection to a child that the test plays.
func overPipes(t *testing.T) (*client, childPipes) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, said := io.Pipe()
	c := newConnector(t, Config{MaxMessage: 1000}).newClient(&registry.Server{ID: "s"}, legacy)
	wire := &stdio{client: c}
	wire.in = jsonrpc.NewLineReader(stdout, 1000, func(m jsonrpc.Message, text []byte) { c.receive(m, text, nil) })
	wire.out = jsonrpc.NewLineWriter(write, time.Minute, func(error) {})
	c.wire, c.oneStream = wire, true
	c.ids.Store(4) // the next is 5
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = wire.in.Read()
		c.fail(errClosed)
	}()
	t.Cleanup(func() {
		_ = said.Close()
		<-ended
		_ = wire.out.Close()
		_ = read.Close()
	})
	return c, childPipes{read, said}
}

// A request returns the child's answer, in whatever form; messages that do not answer it do not end it.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, tt := range map[string]struct {
		says   string
		result string
		kind   Kind
		code   int
	}{
		"result":            {`{"jsonrpc":"2.0","id":5,"result":{"a": [1,{"b":"}"}]}}`, `{"a": [1,{"b":"}"}]}`, 0, 0},
		"a null result":     {`{"jsonrpc":"2.0","result":null,"id":5}`, `null`, 0, 0},
		"error":             {`{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"no"}}`, "", Answered, -32601},
		"null error":        {`{"jsonrpc":"2.0","id":5,"error":null,"result":1}`, "1", 0, 0},
		"another number":    {`{"jsonrpc":"2.0","id":5.0,"result":1}`, "1", 0, 0},
		"others before":     {"{\"id\":\"5\",\"result\":2}\n{\"id\":6,\"result\":2}\n{\"id\":null,\"result\":2}\nnoise\n{\"id\":5,\"result\":1}", "1", 0, 0},
		"a request, asked":  {"{\"id\":5,\"method\":\"ping\"}\n{\"id\":5,\"result\":1}", "1", 0, 0},
		"a key twice":       {`{"jsonrpc":"2.0","id":5,"result":{"a":1,"a":2}}`, "", Protocol, 0},
		"too long":          {`{"jsonrpc":"2.0","id":5,"result":"` + long + `"}`, "", TooLarge, 0},
		"unreadable error":  {`{"jsonrpc":"2.0","id":5,"error":{"code":"no"}}`, "", Protocol, 0},
		"the end":           {"", "", Unavailable, 0},
		"an answer, an end": {`{"jsonrpc":"2.0","id":5,"result":1}`, "1", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, child := overPipes(t)
			go func() {
				if _, err := child.stdin.Read(make([]byte, 1000)); err != nil {
					t.Error(err)
				}
				if tt.says != "" {
					_, _ = io.WriteString(child.stdout, tt.says+"\n")
				}
				if strings.Contains(name, "end") {
					_ = child.stdout.Close()
				}
			}()
			got, err := c.request(t.Context(), "tools/call", "a", nil)
			if string(got) != tt.result || (err != nil) != (tt.result == "") {
				t.Errorf("result %s, %v; want %s", got, err, tt.result)
			}
			if err != nil && (As(err).Kind != tt.kind || As(err).Code != tt.code || !As(err).MayHaveRun) {
				t.Errorf("error %+v, want %v, %d", As(err), tt.kind, tt.code)
			}
			if n := len(c.waiting); n != 0 && tt.kind != Unavailable {
				t.Errorf("%d answers are still waited for", n)
			}
		})
	}
}

// A request ends with its context and with its connection, and leaves nothing behind.
func TestRequestIsGivenUp(t *testing.T) {
	for name, end := range map[string]func(*client, func()){
		"its context":    func(_ *client, cancel func()) { cancel() },
		"its connection": func(c *client, _ func()) { c.finish() },
	} {
		t.Run(name, func(t *testing.T) {
			c, child := overPipes(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				_, _ = child.stdin.Read(make([]byte, 1000))
				end(c, cancel)
			}()
			_, err := c.request(ctx, "tools/call", "a", nil)
			if e := As(err); err == nil || e.Kind != Interrupted && !e.Lost || !e.MayHaveRun {
				t.Errorf("%v", err)
			}
			if n := len(c.waiting); n != 0 && name == "its context" {
				t.Errorf("%d answers are still waited for", n)
			}
		})
	}
}
