package call

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExplain(t *testing.T) {
	failed := func(kind mcp.Kind, sent bool, code int, text string) error {
		return &mcp.Error{Kind: kind, MayHaveRun: sent, Code: code, Message: text}
	}
	tests := []struct {
		name    string
		stage   Stage
		err     error
		code    codes.Code
		reason  string
		outcome string
	}{
		{"not started", Preparing, failed(mcp.Unavailable, false, 0, "x"), codes.Unavailable, "MCP_SERVER_UNAVAILABLE", "NOT_EXECUTED"},
		{"list not answered", Preparing, failed(mcp.Unavailable, true, 0, "x"), codes.Unavailable, "MCP_SERVER_UNAVAILABLE", "NOT_EXECUTED"},
		{"wrong key", Executing, failed(mcp.Unauthorized, false, 0, "x"), codes.FailedPrecondition, "MCP_SERVER_UNAVAILABLE", "NOT_EXECUTED"},
		{"lost", Executing, failed(mcp.Unavailable, true, 0, "x"), codes.Unavailable, "MCP_SERVER_UNAVAILABLE", "UNKNOWN"},
		{"never sent", Executing, failed(mcp.Unavailable, false, 0, "x"), codes.Unavailable, "MCP_SERVER_UNAVAILABLE", "NOT_EXECUTED"},
		{"rubbish", Executing, failed(mcp.Protocol, true, 0, "x"), codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", "UNKNOWN"},
		{"large", Executing, failed(mcp.TooLarge, true, 0, "x"), codes.ResourceExhausted, "TOO_LARGE", "UNKNOWN"},
		{"invalid params", Executing, failed(mcp.Answered, true, -32602, "a is missing"), codes.InvalidArgument, "INVALID_TOOL_INPUT", "KNOWN"},
		{"unknown tool", Executing, failed(mcp.Answered, true, -32602, "Unknown tool: x"), codes.NotFound, "TOOL_NOT_FOUND", "KNOWN"},
		{"tool not found", Executing, failed(mcp.Answered, true, -32602, "Tool x not found"), codes.NotFound, "TOOL_NOT_FOUND", "KNOWN"},
		{"no such method", Executing, failed(mcp.Answered, true, -32601, "x"), codes.NotFound, "TOOL_NOT_FOUND", "KNOWN"},
		{"other error", Executing, failed(mcp.Answered, true, -32000, "x"), codes.FailedPrecondition, "TOOL_EXECUTION_FAILED", "KNOWN"},
		{"deadline", Executing, &mcp.Error{Kind: mcp.Interrupted, MayHaveRun: true, Err: context.DeadlineExceeded}, codes.DeadlineExceeded, "TIMEOUT", "UNKNOWN"},
		{"cancelled", Executing, &mcp.Error{Kind: mcp.Interrupted, MayHaveRun: true, Err: context.Canceled}, codes.Canceled, "CANCELLED", "UNKNOWN"},
		{"cancelled in time", Executing, &mcp.Error{Kind: mcp.Interrupted, Err: context.Canceled}, codes.Canceled, "CANCELLED", "NOT_EXECUTED"},
		{"anything", Executing, errors.New("x"), codes.Unavailable, "MCP_SERVER_UNAVAILABLE", "UNKNOWN"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Explain(tt.stage, tt.err)
			if e.Code != tt.code || errs.ReasonName(e.Reason) != tt.reason || e.Metadata[errs.OutcomeKey] != tt.outcome {
				t.Errorf("got %v %v %v", e.Code, e, e.Metadata)
			}
		})
	}
}

func TestReadResultErrors(t *testing.T) {
	for want, raw := range map[string]string{
		"not a tool result": `[]`,
		"input_required":    `{"resultType":"input_required"}`,
		"block 2":           `{"content":[{"type":"text","text":"a"},{"type":"video"}]}`,
		"base64":            `{"content":[{"type":"image","data":"%%"}]}`,
		"its resource":      `{"content":[{"type":"resource","resource":"x"}]}`,
	} {
		if _, err := readResult(json.RawMessage(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want one with %q", raw, err, want)
		}
	}
	r, err := readResult(json.RawMessage(`{"structuredContent":null,"content":[{"type":"text","text":"\ud800"}]}`))
	if err != nil || r.GetStructuredJson() != "" || len(r.GetContent()) != 1 {
		t.Errorf("got %v, %v", r, err)
	}
}

func FuzzReadResult(f *testing.F) {
	f.Add(`{"content":[{"type":"image","data":"AAEC"},{"type":"resource","resource":{"blob":"Bgc="}}],"structuredContent":{}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := readResult(json.RawMessage(raw))
		if err == nil && r == nil {
			t.Error("neither result nor error")
		}
	})
}

// readText reads a string as the standard library does.
func FuzzReadText(f *testing.F) {
	for _, text := range []string{`"a"`, `"\"\\\/\b\f\n\r\t"`, `"{\"a\":[\"b\"]}\n"`, `"\u0061\ud800"`, `"\ud83d\ude00\n"`, "\"\xff\"", `1`, `null`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got, want string
		err := json.Unmarshal([]byte(text), &want)
		if !json.Valid([]byte(text)) || strings.TrimSpace(text) != text {
			return // readText gets valid JSON without space around it
		}
		if failed := readText([]byte("text"), json.RawMessage(text), &got); (failed == nil) != (err == nil) || failed == nil && got != want {
			t.Errorf("%q: %q, %v; want %q, %v", text, got, failed, want, err)
		}
	})
}

func TestSendErrorsEndTheDelivery(t *testing.T) {
	calls := inflight.New(inflight.Config{}, "p")
	call, _, err := calls.Begin(inflight.Start{User: "ann", ID: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	call.Notify(mcp.Notification{Task: &mcp.Task{ID: "t"}}) // the task and the question below are sent to each new follower
	if _, err := call.Ask(mcp.Question{ID: "q"}, nil); err != nil {
		t.Fatal(err)
	}
	sent, gone := 0, errors.New("gone")
	err = New(nil, calls, Deps{}).lead(t.Context(), call, func(*mcppoolv1.CallToolResponse) error { sent++; return gone }, func() { calls.End(call, inflight.End{}) })
	if !errors.Is(err, gone) || sent != 2 {
		t.Errorf("%v; %d messages were sent to a client that is gone, want one event and the result", err, sent)
	}
}

func TestStoppingIsNoCancellation(t *testing.T) {
	e := Explain(Executing, &mcp.Error{Kind: mcp.Interrupted, MayHaveRun: true, Message: mcp.ErrStopping.Error(), Err: errors.Join(context.Canceled, mcp.ErrStopping)})
	if e.Code != codes.Unavailable || errs.ReasonName(e.Reason) != "SHUTTING_DOWN" || e.Metadata[errs.OutcomeKey] != errs.OutcomeUnknown {
		t.Errorf("got %v, %v", e, e.Metadata)
	}
}

// A panic ends its call with an unknown outcome, not the process: a handler's recovery may not reach the call.
func TestPanicEndsTheCallAlone(t *testing.T) {
	c := New(nil, inflight.New(inflight.Config{}, "p"), Deps{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	for _, id := range []string{"", "c1", "c1"} {
		err := c.Call(t.Context(), Request{User: "ann", Server: &registry.Server{ID: "s"}, Tool: "t", CallID: id, Hashes: []inflight.Hash{{}}},
			func(*mcppoolv1.CallToolResponse) error { return nil })
		e := errs.From(err)
		if e.Code != codes.Internal || e.Metadata[errs.OutcomeKey] != errs.OutcomeUnknown || !strings.Contains(e.Message, "nil pointer") {
			t.Errorf("call %q: %v, %v", id, err, e.Metadata)
		}
	}
}
