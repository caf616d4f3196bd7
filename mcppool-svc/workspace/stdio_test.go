package workspace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
)

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// reply is a line from the server.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func callLine(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", id, tool, arguments)
}

func replies(t *testing.T, out io.Reader) []reply {
	t.Helper()
	var all []reply
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r reply
		must(t, json.Unmarshal(lines.Bytes(), &r))
		all = append(all, r)
	}
	must(t, lines.Err())
	return all
}

// blocking adds a tool that runs until its context ends or release is closed.
func blocking(s *Server) (started chan struct{}, release chan struct{}) {
	started, release = make(chan struct{}, 1000), make(chan struct{})
	s.MCP().AddTool(mcp.NewTool("block"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		started <- struct{}{}
		select {
		case <-ctx.Done():
		case <-release:
		}
		return mcp.NewToolResultText("released"), nil
	})
	return started, release
}

// Everything that was asked before the input ended is answered, the last line
// without a line end too.
func TestStdioAnswersAllBeforeItEnds(t *testing.T) {
	s := newServer(t, codeTree(t))
	in := hello
	for i := range 20 {
		in += callLine(i, "search_code", `{"query":"ratchet"}`)
	}
	in += "\n  \n" + strings.TrimSuffix(callLine(20, "read_file", `{"path":"main.go"}`), "\n")
	var out bytes.Buffer
	must(t, s.ServeStdio(t.Context(), strings.NewReader(in), &out))
	ids := map[string]bool{}
	for _, r := range replies(t, &out) {
		if r.Error != nil || r.Result == nil {
			t.Errorf("%s: %+v", r.ID, r.Error)
		}
		ids[string(r.ID)] = true
	}
	if len(ids) != 22 {
		t.Errorf("%d answers, want 22: %v", len(ids), ids)
	}
}

func TestStdioBadMessages(t *testing.T) {
	s := newServer(t, codeTree(t))
	in := hello +
		"not json\n" +
		`{"jsonrpc":"2.0","id":2,"method":"nonsense"}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}` + "\n" +
		callLine(3, "no_such_tool", "{}") +
		`{"jsonrpc":"2.0","id":4,"method":"ping"}` + "\n"
	var out bytes.Buffer
	must(t, s.ServeStdio(t.Context(), strings.NewReader(in), &out))
	got := map[string]int{}
	for _, r := range replies(t, &out) {
		code := 0
		if r.Error != nil {
			code = r.Error.Code
		}
		got[string(r.ID)] = code
	}
	want := map[string]int{`"hello"`: 0, "null": mcp.PARSE_ERROR, "2": mcp.METHOD_NOT_FOUND, "3": mcp.INVALID_PARAMS, "4": 0}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A client of the stateless revision is served too, and a subscription, for
// which there is nothing to send, does not hold up what follows it.
func TestStdioStatelessRevision(t *testing.T) {
	s := newServer(t, codeTree(t))
	line := func(id int, method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n", id, method, params)
	}
	in := line(1, "server/discover", "") +
		line(2, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`) +
		line(3, "tools/call", `"name":"read_file","arguments":{"path":"main.go"},`)
	var out bytes.Buffer
	must(t, s.ServeStdio(t.Context(), strings.NewReader(in), &out))
	answered := 0
	for _, r := range replies(t, &out) {
		if r.Error != nil {
			t.Errorf("%s: %+v", r.ID, r.Error)
		}
		if r.Result != nil {
			answered++
		}
	}
	if answered != 3 {
		t.Errorf("%d answers, want 3", answered)
	}
}

// Progress that belongs to a call is written before its result.
func TestStdioProgressComesBeforeTheResult(t *testing.T) {
	s := newServer(t, manyFiles(t, 3_500))
	in := hello + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_files","arguments":{"pattern":"*"},"_meta":{"progressToken":7}}}` + "\n"
	var out bytes.Buffer
	must(t, s.ServeStdio(t.Context(), strings.NewReader(in), &out))
	var order []string
	for _, r := range replies(t, &out) {
		order = append(order, r.Method+string(r.ID))
	}
	want := []string{`"hello"`, "notifications/progress", "notifications/progress", "notifications/progress", "1"}
	if fmt.Sprint(order) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", order, want)
	}
}

// A cancelled call stops and is not answered, even if its cancellation comes
// right behind it; others go on.
func TestStdioCancelledCall(t *testing.T) {
	s := newServer(t, codeTree(t))
	blocking(s)
	in := hello + callLine(1, "block", "{}") +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n" +
		callLine(2, "read_file", `{"path":"main.go"}`)
	var out bytes.Buffer
	must(t, s.ServeStdio(t.Context(), strings.NewReader(in), &out))
	got := replies(t, &out)
	if len(got) != 2 || string(got[1].ID) != "2" {
		t.Errorf("answers %+v", got)
	}
}

func TestStdioRefusesTooManyCallsAndUsedIDs(t *testing.T) {
	s := newServer(t, codeTree(t))
	started, release := blocking(s)
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := s.ServeStdio(context.Background(), serverIn, serverOut)
		_ = serverOut.Close()
		served <- err
	}()
	send := func(line string) { _, err := io.WriteString(clientOut, line); must(t, err) }
	answers := bufio.NewReader(clientIn)
	receive := func() (r reply) {
		line, err := answers.ReadBytes('\n')
		must(t, err)
		must(t, json.Unmarshal(line, &r))
		return r
	}
	send(hello)
	receive()
	for i := range maxOpenCalls {
		send(callLine(i, "block", "{}"))
	}
	for range maxRunningCalls {
		<-started
	}
	for id, want := range map[int]string{0: "use a new id", maxOpenCalls: "wait for an answer"} {
		send(callLine(id, "block", "{}"))
		r := receive()
		if r.Error == nil || string(r.ID) != fmt.Sprint(id) {
			t.Fatalf("not refused: %+v", r)
		}
		wantContains(t, r.Error.Message, want)
	}
	close(release)
	must(t, clientOut.Close())
	if rest := replies(t, answers); len(rest) != maxOpenCalls {
		t.Errorf("%d answers, want %d", len(rest), maxOpenCalls)
	}
	must(t, <-served)
}

// Two sessions in one process do not see each other's notifications.
func TestStdioSessionsAreApart(t *testing.T) {
	s := newServer(t, manyFiles(t, 1_100))
	serverIn, clientOut := io.Pipe()
	var quiet bytes.Buffer
	served := make(chan error, 1)
	go func() { served <- s.ServeStdio(context.Background(), serverIn, &quiet) }()
	_, err := io.WriteString(clientOut, hello)
	must(t, err)
	in := hello + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_files","arguments":{"pattern":"*"},"_meta":{"progressToken":7}}}` + "\n"
	var out bytes.Buffer
	must(t, s.ServeStdio(t.Context(), strings.NewReader(in), &out))
	must(t, clientOut.Close())
	must(t, <-served)
	if a, b := len(replies(t, &quiet)), len(replies(t, &out)); a != 1 || b != 3 {
		t.Errorf("%d and %d messages, want 1 and 3", a, b)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("pipe is gone") }

func TestStdioWriteFailureEndsTheSession(t *testing.T) {
	s := newServer(t, codeTree(t))
	in, client := io.Pipe() // stays open: only the failure can end the session
	defer client.Close()
	go func() { _, _ = io.WriteString(client, hello) }()
	err := s.ServeStdio(t.Context(), in, brokenWriter{})
	if err == nil {
		t.Fatal("no error")
	}
	wantContains(t, err.Error(), "serve stdio: write to the client", "pipe is gone")
	must(t, in.Close())
}

func TestStdioReadFailure(t *testing.T) {
	s := newServer(t, codeTree(t))
	in, client := io.Pipe()
	must(t, client.CloseWithError(errors.New("cable is cut")))
	err := s.ServeStdio(t.Context(), in, io.Discard)
	if err == nil {
		t.Fatal("no error")
	}
	wantContains(t, err.Error(), "read from the client", "cable is cut")
	err = s.ServeStdio(t.Context(), strings.NewReader(hello+strings.Repeat("x", maxMessageBytes+1)+"\n"), io.Discard)
	if err == nil {
		t.Fatal("no error")
	}
	wantContains(t, err.Error(), "longer than")
}

// The end of the context ends the session while the client says nothing, runs
// a call, or does not read.
func TestStdioEndsWithItsContext(t *testing.T) {
	s := newServer(t, codeTree(t))
	started, _ := blocking(s)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		serverIn, clientOut := io.Pipe()
		clientIn, serverOut := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.ServeStdio(ctx, serverIn, serverOut) }()
		_, err := io.WriteString(clientOut, hello)
		must(t, err)
		synctest.Wait() // the answer is stuck: clientIn has no reader
		cancel()
		must(t, <-served)
		must(t, clientIn.Close())
		must(t, clientOut.Close())
	})
	ctx, cancel := context.WithCancel(t.Context())
	serverIn, clientOut := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeStdio(ctx, serverIn, io.Discard) }()
	_, err := io.WriteString(clientOut, hello+callLine(1, "block", "{}"))
	must(t, err)
	<-started
	cancel()
	must(t, <-served)
	must(t, clientOut.Close())
}
