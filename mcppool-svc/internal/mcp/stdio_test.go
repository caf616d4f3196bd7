package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

func TestStdioHandshakeListAndCall(t *testing.T) {
	c := dial(t, mcptest.Good)
	if got := c.Info().String(); got != "fake 1.0 (MCP 2025-11-25)" {
		t.Errorf("info = %q", got)
	}
	tools, err := c.ListTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if string(tools[0]) != mcptest.EchoDefinition {
		t.Errorf("the raw definition was changed:\n got %s\nwant %s", tools[0], mcptest.EchoDefinition)
	}
	if last := string(tools[len(tools)-1]); !strings.Contains(last, `"last"`) {
		t.Errorf("the second page is missing; last tool is %s", last)
	}
	raw, err := callTool(t, c, "echo", `{"text":"<&>","n":9007199254740993}`)
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal([]byte(raw), &result); err != nil {
		t.Fatal(err)
	}
	// Exact: the number is above 2^53.
	if got := result.Content[0].Text; !strings.Contains(got, "9007199254740993") {
		t.Errorf("the input arrived as %s", got)
	}
}

func TestStdioToleratesStrayLogLines(t *testing.T) {
	c := dial(t, mcptest.Noisy)
	if _, err := callTool(t, c, "echo", `{"text":"a"}`); err != nil {
		t.Error(err)
	}
}

func TestModernServerIsReachedWithoutHandshake(t *testing.T) {
	c := dial(t, mcptest.Modern)
	if got := c.Info().Protocol; got != "2026-07-28" {
		t.Errorf("protocol = %q", got)
	}
	raw, err := callTool(t, c, "echo", `{"text":"a"}`)
	if err != nil || !strings.Contains(raw, "text") {
		t.Errorf("call = %s, %v", raw, err)
	}
}

func TestConnectErrors(t *testing.T) {
	tests := []struct {
		name  string
		stdio *registry.Stdio
		limit time.Duration
		kind  Kind
		want  []string
	}{
		{"no such command", &registry.Stdio{Command: "no-such-program-here"}, 0, Unavailable, []string{"cannot be started", "install it"}},
		{"exits at start", mcptest.Stdio(mcptest.Exit), 0, Unavailable, []string{"exit status 3", "the database is missing, token ***"}},
		{"is silent", mcptest.Stdio(mcptest.Silent), 200 * time.Millisecond, Unavailable, []string{"did not answer in time", "start_timeout"}},
		{"writes rubbish", mcptest.Stdio(mcptest.Rubbish), 0, Protocol, []string{"does not speak MCP", "Welcome to this program!"}},
		{"unknown revision", mcptest.Stdio(mcptest.OldVersion), 0, Protocol, []string{"1999-01-01"}},
		{"missing reference", &registry.Stdio{Command: "sh", Env: map[string]string{"A": "${env:NOT_THERE}"}}, 0, Misconfigured, []string{"NOT_THERE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newConnector(t, Config{})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if tt.limit > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), tt.limit)
			}
			defer cancel()
			if tt.stdio.Env == nil {
				tt.stdio.Env = map[string]string{}
			}
			tt.stdio.Env["SECRET_TOKEN"] = "hunter2-hunter2"
			_, err := c.Connect(ctx, &registry.Server{ID: "fake", Stdio: tt.stdio, ByOperator: true}, "ann")
			if err == nil {
				t.Fatal("connected")
			}
			e := As(err)
			if e.Kind != tt.kind {
				t.Errorf("kind = %v, want %v", e.Kind, tt.kind)
			}
			for _, want := range tt.want {
				if !strings.Contains(e.Message, want) {
					t.Errorf("message %q lacks %q", e.Message, want)
				}
			}
			if strings.Contains(e.Message, "hunter2") {
				t.Errorf("message %q shows a secret", e.Message)
			}
		})
	}
}

func TestReferencesAreResolvedForOperatorsOnly(t *testing.T) {
	environ := append([]string{"TOKEN=from-the-pool"}, "PATH=/usr/bin:/bin")
	for _, byOperator := range []bool{true, false} {
		stdio := mcptest.Stdio(mcptest.Good)
		stdio.Env["GIVEN"] = "x-${env:TOKEN}"
		c := dialServer(t, newConnector(t, Config{Environ: environ}), &registry.Server{ID: "fake", Stdio: stdio, ByOperator: byOperator})
		raw, err := callTool(t, c, "env", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(raw, "GIVEN=x-from-the-pool"); got != byOperator {
			t.Errorf("by operator %v: resolved %v", byOperator, got)
		}
		if strings.Contains(raw, "TOKEN=from-the-pool") && !strings.Contains(raw, "GIVEN=x-from") {
			t.Error("the child inherited a variable that is not on the list")
		}
	}
}

func TestCallOutcomes(t *testing.T) {
	tests := []struct {
		tool string
		want Error
	}{
		{"error", Error{Kind: Answered, Code: -32000, MayHaveRun: true, Message: "the disk is full"}},
		{"nope", Error{Kind: Answered, Code: -32602, MayHaveRun: true, Message: "Unknown tool: nope"}},
		{"crash", Error{Kind: Unavailable, MayHaveRun: true, Lost: true, Message: "exit status 7"}},
	}
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			c := dial(t, mcptest.Good)
			_, err := callTool(t, c, tt.tool, `{}`)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error = %v", err)
			}
			got := Error{Kind: e.Kind, Code: e.Code, MayHaveRun: e.MayHaveRun, Lost: e.Lost, Message: tt.want.Message}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(e.Message, tt.want.Message) {
				t.Errorf("message = %q", e.Message)
			}
		})
	}
}

func TestDeadChildIsNoticedAndLaterCallsAreProvenNotSent(t *testing.T) {
	c := dial(t, mcptest.Good)
	_, _ = callTool(t, c, "crash", `{}`) // ends the child, as asked
	<-c.Done()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("Err = %v, want the last lines of the child", err)
	}
	_, err := callTool(t, c, "echo", `{"text":"a"}`)
	if e := As(err); e.MayHaveRun || !e.Lost {
		t.Errorf("error = %+v, want not sent and lost", e)
	}
}

// briefly is the timeout of calls that get no answer: long enough to send them on a busy machine.
const briefly = 500 * time.Millisecond

func TestDeadlineTellsTheServerAndDoesNotWait(t *testing.T) {
	c := dial(t, mcptest.Good)
	ctx, cancel := context.WithTimeout(t.Context(), briefly)
	defer cancel()
	_, err := c.CallTool(ctx, Call{Name: "hang", Arguments: strictjson.Checked(`{}`), Notify: func(Notification) {}})
	e := As(err)
	if e.Kind != Interrupted || !e.MayHaveRun || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %+v", e)
	}
	if _, err := callTool(t, c, "echo", `{"text":"still there"}`); err != nil {
		t.Errorf("the connection is of no use after a timeout: %v", err)
	}
}

func TestCancelledCallMayStillAnswer(t *testing.T) {
	c := dial(t, mcptest.Good)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	waiting := sync.OnceFunc(func() { cancel(errors.New("enough")) })
	raw, err := c.CallTool(ctx, Call{Name: "wait", Arguments: strictjson.Checked(`{}`), Notify: func(n Notification) {
		if n.Log != nil {
			waiting()
		}
	}})
	if err != nil || !strings.Contains(string(raw), "stopped in time") {
		t.Errorf("result = %s, %v; want the server's answer", raw, err)
	}
}

func TestCallGivenUpBeforeItWasSent(t *testing.T) {
	c := dial(t, mcptest.Good)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.CallTool(ctx, Call{Name: "hang", Arguments: strictjson.Checked(`{}`), Notify: func(Notification) {}})
	if e := As(err); e.Kind != Interrupted {
		t.Errorf("error = %+v", e)
	}
}

func TestProgressAndLogs(t *testing.T) {
	c := dial(t, mcptest.Good)
	var mu sync.Mutex
	var got []Notification
	_, err := c.CallTool(t.Context(), Call{Name: "steps", Arguments: strictjson.Checked(`{}`), Notify: func(n Notification) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, n)
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Notification{
		{Progress: &Progress{Done: 1, Total: 3, Message: "step 1"}},
		{Progress: &Progress{Done: 2, Total: 3, Message: "step 2"}},
		{Progress: &Progress{Done: 3, Total: 3, Message: "step 3"}},
		{Log: &Log{Level: "warning", Logger: "fake", Data: `{"careful":true}`}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestListChangedIsCounted(t *testing.T) {
	c := dial(t, mcptest.Good)
	if _, err := callTool(t, c, "grow", `{}`); err != nil {
		t.Fatal(err)
	}
	if v := c.ToolsVersion(); v != 1 {
		t.Errorf("version = %d, want 1", v)
	}
}

func TestTooLargeMessageEndsItsCallAlone(t *testing.T) {
	c := dialServer(t, newConnector(t, Config{MaxMessage: 1 << 20}), &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mcptest.Good)})
	if _, err := callTool(t, c, "large", `{"n":900000}`); err != nil {
		t.Fatal(err)
	}
	_, err := callTool(t, c, "large", `{"n":1100000}`)
	e := As(err)
	if e.Kind != TooLarge || !e.MayHaveRun || !e.Ended || e.Lost || !strings.Contains(e.Message, "more than 1 MiB; ask the tool for less, or have an operator raise the pool's --max-message-bytes") {
		t.Errorf("error = %+v", e)
	}
	if _, err := callTool(t, c, "echo", `{"text":"still there"}`); err != nil {
		t.Errorf("the connection can no longer be used: %v", err)
	}
}

func TestServerThatDoesNotReadBlocksNoCall(t *testing.T) {
	c := dial(t, mcptest.UnreadStdin)
	const firstCall = 2 // the id after that of the handshake
	big := `{"text":"` + strings.Repeat("x", jsonrpc.MaxQueued) + `"}`
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for out := c.(*client).wire.(*stdio).out; ; runtime.Gosched() {
			if out.Holds(firstCall) != nil {
				cancel(context.DeadlineExceeded)
				return
			}
		}
	}()
	_, err := c.CallTool(ctx, Call{Name: "echo", Arguments: strictjson.Checked(big), Notify: func(Notification) {}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("first call: %v", err)
	}
	_, err = callTool(t, c, "echo", big)
	if e := As(err); e.MayHaveRun || !strings.Contains(e.Message, "does not read its stdin") {
		t.Errorf("second call: %+v", e)
	}
	if err := c.Close(); err != nil { // which kills what does not end by itself
		t.Error(err)
	}
}

func TestWrongIDIsNoAnswer(t *testing.T) {
	c := dial(t, mcptest.WrongID)
	ctx, cancel := context.WithTimeout(t.Context(), briefly)
	defer cancel()
	_, err := c.CallTool(ctx, Call{Name: "echo", Arguments: strictjson.Checked(`{"text":"a"}`), Notify: func(Notification) {}})
	if e := As(err); e.Kind != Interrupted || !e.MayHaveRun {
		t.Errorf("error = %+v", e)
	}
}

func TestListErrors(t *testing.T) {
	for mode, want := range map[string]string{
		mcptest.ListError: "the index is broken",
		mcptest.LoopPages: "no end",
	} {
		c := dial(t, mode)
		if _, err := c.ListTools(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v", mode, err)
		}
	}
}

func TestCloseEndsChildAndGrandchild(t *testing.T) {
	c := dial(t, mcptest.Stubborn)
	raw, err := callTool(t, c, "info", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := c.ListTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pids := append(numbers(t, raw), numbers(t, string(tools[len(tools)-1]))...)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if !mcptest.Gone(pid, time.Second) {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// numbers returns the process ids in a text.
func numbers(t *testing.T, text string) []int {
	t.Helper()
	var pids []int
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(f); err == nil && n > 1 {
			pids = append(pids, n)
		}
	}
	if len(pids) == 0 {
		t.Fatalf("no process id in %s", text)
	}
	return pids
}
