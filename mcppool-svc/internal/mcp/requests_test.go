package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/strictjson"
)

func toolCall(id int64, p mcp.CallToolParams) transport.JSONRPCRequest {
	return transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(id), Method: string(mcp.MethodToolsCall), Params: p}
}

// A tool call is written as mcp-go writes it, in one line for every reader.
func TestToolRequest(t *testing.T) {
	all := map[string]Call{
		"plain":          {Name: "a/\"b\"", Arguments: json.RawMessage(`{"x":9007199254740993,"y":"<é>"}`), Meta: []Meta{{Key: "k", Value: "<v>"}, {Key: "l", Value: "\xff"}}},
		"without meta":   {Name: "a", Arguments: json.RawMessage(`{}`)},
		"lines":          {Name: "a\n", Arguments: json.RawMessage("{\r\n \"x\": 1\n}")},
		"JavaScript's":   {Name: "\u2028", Arguments: json.RawMessage("{\"x\":\"\u2028 \u2029\"}")},
		"to run as task": {Name: "a", Arguments: json.RawMessage(`{}`), Task: TaskAsked, TaskTTL: time.Minute},
	}
	for _, mode := range []string{mcptest.Good, mcptest.Modern} {
		c := dial(t, mode).(*client)
		c.canTask = true
		for name, call := range all {
			t.Run(mode+", "+name, func(t *testing.T) {
				request, err := c.toolRequest(&running{call: call, token: "7"}, round{})
				if err != nil {
					t.Fatal(err)
				}
				got, err := encodeRequest(request.ID.Value().(int64), request)
				if err != nil {
					t.Fatal(err)
				}
				want := libraryWrites(t, c, call)
				want.ID = request.ID
				text, err := json.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(decoded(t, text), decoded(t, got)); d != "" {
					t.Errorf("(-mcp-go +got):\n%s", d)
				}
				if line := strings.TrimSuffix(string(got), "\n"); strings.ContainsAny(line, "\r\n\u2028\u2029") || line == string(got) {
					t.Errorf("not one line: %q", got)
				}
				if !bytes.HasPrefix(got, beginning(request.ID)) {
					t.Errorf("%s does not begin with %s", got, beginning(request.ID))
				}
			})
		}
		broken := &running{call: Call{Name: "a", Arguments: json.RawMessage(`{"x":}`)}}
		if _, err := c.toolRequest(broken, round{}); !errors.Is(err, strictjson.ErrInvalid) || As(err).Sent {
			t.Errorf("arguments that are no JSON: %v", err)
		}
	}
}

// libraryWrites is a call as mcp-go's client writes it.
func libraryWrites(t *testing.T, c *client, call Call) (request transport.JSONRPCRequest) {
	t.Helper()
	meta := &mcp.Meta{ProgressToken: "7", AdditionalFields: map[string]any{}}
	for _, m := range call.Meta {
		meta.AdditionalFields[m.Key] = m.Value
	}
	params := mcp.CallToolParams{Name: call.Name, RawArguments: call.Arguments, Meta: meta}
	if call.Task == TaskAsked {
		ttl := call.TaskTTL.Milliseconds()
		params.Task = &mcp.TaskParams{TTL: &ttl}
	}
	_, _ = c.mcp.CallTool(withExchange(t.Context(), &exchange{written: &request}), mcp.CallToolRequest{Params: params})
	return request
}

// What answers a question of the server goes with the request, and the server's state as it came.
func TestToolRequestOfALaterRound(t *testing.T) {
	c, state := dial(t, mcptest.Modern).(*client), "s\n\u2028\"é"
	next := round{responses: map[string]json.RawMessage{"q": json.RawMessage(`{"action":"accept"}`)}, state: &state}
	request, err := c.toolRequest(&running{call: Call{Name: "a"}, token: "7"}, next)
	if err != nil {
		t.Fatal(err)
	}
	params := decoded(t, request.Params.(json.RawMessage)).(map[string]any)
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

func overPipes(t *testing.T) (*lines, childPipes) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, said := io.Pipe()
	l := newLines(newLineReader(stdout, 1000), newLineWriter(write, time.Minute, func(error) {}))
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = said.Close()
		_ = l.Close()
		_ = read.Close()
	})
	return l, childPipes{read, said}
}

// What a child answers to a request, in whatever form, comes back; what is no answer to it does not end it.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, tt := range map[string]struct {
		says   string
		result string
		code   int
		fails  error
	}{
		"result":            {`{"jsonrpc":"2.0","id":5,"result":{"a": [1,{"b":"}"}]}}`, `{"a": [1,{"b":"}"}]}`, 0, nil},
		"a word":            {`{"jsonrpc":"2.0","result":null,"id":5}`, `null`, 0, nil},
		"error":             {`{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"no"}}`, "", -32601, nil},
		"null error":        {`{"jsonrpc":"2.0","id":5,"error":null,"result":1}`, "1", 0, nil},
		"another number":    {`{"jsonrpc":"2.0","id":5.0,"result":1}`, "1", 0, nil},
		"others before":     {"{\"id\":\"5\",\"result\":2}\n{\"id\":6,\"result\":2}\n{\"id\":null,\"result\":2}\nnoise\n{\"id\":5,\"result\":1}", "1", 0, nil},
		"a request, asked":  {"{\"id\":5,\"method\":\"ping\"}\n{\"id\":5,\"result\":1}", "1", 0, nil},
		"a key twice":       {`{"jsonrpc":"2.0","id":5,"result":{"a":1,"a":2}}`, "", verdictCode, nil},
		"too long":          {`{"jsonrpc":"2.0","id":5,"result":"` + long + `"}`, "", verdictCode, nil},
		"unreadable error":  {`{"jsonrpc":"2.0","id":5,"error":{"code":"no"}}`, "", 0, errMalformed},
		"the end":           {"", "", 0, transport.ErrTransportClosed},
		"an answer, an end": {`{"jsonrpc":"2.0","id":5,"result":1}`, "1", 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l, child := overPipes(t)
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
			got, err := l.SendRequest(t.Context(), toolCall(5, mcp.CallToolParams{Name: "a", RawArguments: json.RawMessage(`{}`)}))
			if !errors.Is(err, tt.fails) || err != nil && tt.fails == nil {
				t.Fatalf("error %v, want %v", err, tt.fails)
			}
			if err != nil {
				return
			}
			code := 0
			if got.Error != nil {
				code = got.Error.Code
			}
			if string(got.Result) != tt.result || code != tt.code || got.ID != mcp.NewRequestId(int64(5)) {
				t.Errorf("result %s, code %d; want %s, %d", got.Result, code, tt.result, tt.code)
			}
			if n := len(l.in.waiting); n != 0 {
				t.Errorf("%d are still waited for", n)
			}
		})
	}
}

// A request ends with its context and with its transport, and leaves nothing behind.
func TestRequestIsGivenUp(t *testing.T) {
	for name, end := range map[string]func(*lines, func()){
		"its context":   func(_ *lines, cancel func()) { cancel() },
		"its transport": func(l *lines, _ func()) { _ = l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			l, child := overPipes(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				_, _ = child.stdin.Read(make([]byte, 1000))
				end(l, cancel)
			}()
			_, err := l.SendRequest(ctx, toolCall(5, mcp.CallToolParams{Name: "a", RawArguments: json.RawMessage(`{}`)}))
			if !errors.Is(err, context.Canceled) && !errors.Is(err, transport.ErrTransportClosed) {
				t.Errorf("%v", err)
			}
			if n := len(l.in.waiting); n != 0 {
				t.Errorf("%d are still waited for", n)
			}
		})
	}
}
