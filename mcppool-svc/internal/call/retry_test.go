package call

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest/mcpfake"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// flaky is a server whose requests fail as the test says, one after the other. Its tools look, ask and lookform are READ, write and
// writeform WRITE. ask, lookform and writeform ask a question first; the latter two then make later rounds, with retries of their own.
type flaky struct {
	mcpfake.Static
	done chan struct{}

	mu    sync.Mutex
	fails []error     // guarded by mu; a nil one is a success, as are all after the last
	calls []time.Time // guarded by mu; when each request came
}

func (s *flaky) Info() mcp.Info        { return mcp.Info{Name: "flaky", Protocol: "x"} }
func (s *flaky) ToolsVersion() uint64  { return 0 }
func (s *flaky) Done() <-chan struct{} { return s.done }
func (s *flaky) Err() error            { return nil }
func (s *flaky) Close() error          { return nil }

func (s *flaky) ListTools(context.Context) ([]json.RawMessage, error) {
	return []json.RawMessage{
		json.RawMessage(`{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`),
		json.RawMessage(`{"name":"ask","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`),
		json.RawMessage(`{"name":"write","inputSchema":{"type":"object"}}`),
		json.RawMessage(`{"name":"lookform","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`),
		json.RawMessage(`{"name":"writeform","inputSchema":{"type":"object"}}`),
	}, nil
}

func (s *flaky) CallTool(ctx context.Context, c mcp.Call) (json.RawMessage, error) {
	if err := c.Gate(); err != nil {
		return nil, err
	}
	if c.Name == "ask" || strings.HasSuffix(c.Name, "form") {
		if _, err := c.Ask(ctx, mcp.Question{ID: "q", Schema: `{"type":"object"}`}); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		raw, err := s.answer()
		if !strings.HasSuffix(c.Name, "form") || err == nil || !c.Again(ctx, attempt, mcp.As(err)) {
			return raw, err
		}
	}
}

func (s *flaky) answer() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Now())
	if n := len(s.calls); n <= len(s.fails) && s.fails[n-1] != nil {
		return nil, s.fails[n-1]
	}
	return json.RawMessage(`{"content":[{"type":"text","text":"ok"}]}`), nil
}

// callFlaky calls a flaky server. It returns when each request came, relative to the first one, and the call's error.
func callFlaky(t *testing.T, fails []error, r Request, lookup ...func(user, id string) (*registry.Server, error)) ([]time.Duration, error) {
	t.Helper()
	server := &flaky{done: make(chan struct{}), fails: fails}
	pool := conn.New(conn.Config{}, func(context.Context, *registry.Server, string) (mcp.Client, error) { return server, nil }, slog.New(slog.DiscardHandler))
	st, err := store.Open("", pin.Buckets()...)
	if err != nil {
		t.Fatal(err)
	}
	pins, err := pin.Open(st, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c := New(pool, inflight.New(inflight.Config{}, "p"), Deps{Now: time.Now, Log: slog.New(slog.DiscardHandler), Pins: pins})
	for _, l := range lookup {
		c.deps.Lookup = l
	}
	if r.Server == nil {
		r.Server = &registry.Server{ID: "s", UID: "u", Trusted: true, Stdio: &registry.Stdio{Command: "x"}}
	}
	r.User, r.Input, r.CallID, r.Hashes = "ann", strictjson.Checked("{}"), "c", []inflight.Hash{{}}
	failed := c.Call(t.Context(), r, func(*mcppoolv1.CallToolResponse) error { return nil })
	close(server.done)
	pool.Close()
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	var at []time.Duration
	for _, when := range server.calls {
		at = append(at, when.Sub(server.calls[0]))
	}
	return at, failed
}

// D11: a transient failure is retried after one and then two seconds if that is safe: the tool only reads, or the request never
// arrived.
func TestRetry(t *testing.T) {
	reset := &mcp.Error{Kind: mcp.Unavailable, MayHaveRun: true, Transient: true, Message: "reset"}
	unsent := &mcp.Error{Kind: mcp.Unavailable, Transient: true, Message: "busy"}
	begun := &mcp.Error{Kind: mcp.Unavailable, Begun: true, Lost: true, Transient: true, Message: "busy"}
	broken := &mcp.Error{Kind: mcp.Protocol, MayHaveRun: true, Message: "rubbish"}
	answered := &mcp.Error{Kind: mcp.Answered, Code: -32000, MayHaveRun: true, Message: "no"}
	polite := &mcp.Error{Kind: mcp.Unavailable, Transient: true, RetryAfter: 5 * time.Second, Message: "busy"}
	rude := &mcp.Error{Kind: mcp.Unavailable, Transient: true, RetryAfter: time.Hour, Message: "busy"}
	short := &registry.Server{ID: "s", UID: "u", Trusted: true, Stdio: &registry.Stdio{Command: "x"}, CallTimeout: 2 * time.Second}
	for _, tt := range []struct {
		name   string
		fails  []error
		r      Request
		pauses []time.Duration // give or take a fifth
		class  Class           // of the error; empty: it succeeds
	}{
		{"a reader", []error{reset, reset}, Request{Tool: "look"}, []time.Duration{time.Second, 2 * time.Second}, ""},
		{"a reader that fails for long", []error{reset, reset, reset, nil}, Request{Tool: "look"}, []time.Duration{time.Second, 2 * time.Second}, Retryable},
		{"a reader that has asked", []error{reset}, Request{Tool: "ask", Unnamed: true}, nil, Retryable},
		{"a writer may have written", []error{reset}, Request{Tool: "write"}, nil, Retryable},
		{"a writer that was not called", []error{unsent}, Request{Tool: "write"}, []time.Duration{time.Second}, ""},
		{"a writer that was not called, then may have written", []error{unsent, reset}, Request{Tool: "write"}, []time.Duration{time.Second}, Retryable},
		{"a permanent failure", []error{broken}, Request{Tool: "look"}, nil, Permanent},
		{"an answer", []error{answered}, Request{Tool: "look"}, nil, Permanent},
		{"a pause that the server asks for", []error{polite}, Request{Tool: "look"}, []time.Duration{5 * time.Second}, ""},
		{"too long a pause", []error{rude}, Request{Tool: "look"}, []time.Duration{10 * time.Second}, ""},
		{"within the call's timeout", []error{reset, reset}, Request{Tool: "look", Server: short}, []time.Duration{time.Second}, Retryable},
		{"a later round", []error{unsent, polite}, Request{Tool: "writeform", Unnamed: true}, []time.Duration{time.Second, 5 * time.Second}, ""},
		{"a later round that fails for long", []error{unsent, unsent, begun}, Request{Tool: "writeform", Unnamed: true}, []time.Duration{time.Second, 2 * time.Second}, Retryable},
		{"a later round that may have written", []error{reset}, Request{Tool: "writeform", Unnamed: true}, nil, Retryable},
		{"a later round that may have read", []error{reset}, Request{Tool: "lookform", Unnamed: true}, []time.Duration{time.Second}, ""},
		{"a call that cannot begin again", []error{begun}, Request{Tool: "look"}, nil, Retryable},
		{"not after start_by", []error{unsent}, Request{Tool: "look", StartBy: time.Date(2000, 1, 1, 0, 0, 0, 5e8, time.UTC)}, nil, Retryable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at, err := callFlaky(t, tt.fails, tt.r)
				if tt.class == "" && err != nil || tt.class != "" && Class(errs.From(err).Metadata[ClassKey]) != tt.class {
					t.Errorf("ended with %v (%v), want class %q", err, errs.From(err).Metadata, tt.class)
				}
				if len(at) != len(tt.pauses)+1 {
					t.Fatalf("requests at %v", at)
				}
				for i, want := range tt.pauses {
					if got := at[i+1] - at[i]; got < want*8/10 || got > want*12/10 {
						t.Errorf("pause %d is %v, want about %v", i+1, got, want)
					}
				}
			})
		})
	}
}

// If an earlier attempt may have run, the outcome stays UNKNOWN, however a later one ends.
func TestUnknownStaysUnknown(t *testing.T) {
	reset := &mcp.Error{Kind: mcp.Unavailable, MayHaveRun: true, Transient: true, Message: "reset"}
	login := &mcp.Error{Kind: mcp.LoginRequired, Message: "log in"}
	synctest.Test(t, func(t *testing.T) {
		at, err := callFlaky(t, []error{reset, login}, Request{Tool: "look"})
		if len(at) != 2 || errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeUnknown {
			t.Errorf("requests at %v, ended with %v", at, errs.From(err).Metadata)
		}
	})
}

// A server that was removed or changed while a call waits for its next attempt is not called again.
func TestNoRetryOfAnotherServer(t *testing.T) {
	reset := &mcp.Error{Kind: mcp.Unavailable, MayHaveRun: true, Transient: true, Message: "reset"}
	mine := &registry.Server{ID: "s", UID: "u", Trusted: true, Stdio: &registry.Stdio{Command: "x"}}
	changed := mine.Clone()
	changed.Generation++
	for name, tt := range map[string]struct {
		now      *registry.Server
		err      error
		requests int
	}{
		"the same":  {mine, nil, 2},
		"gone":      {nil, errors.New("gone"), 1},
		"changed":   {changed, nil, 1},
		"disabled":  {&registry.Server{ID: "s", UID: "u", Disabled: true, Stdio: mine.Stdio}, nil, 1},
		"a new one": {&registry.Server{ID: "s", UID: "v", Trusted: true, Stdio: mine.Stdio}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at, _ := callFlaky(t, []error{reset}, Request{Tool: "look", Server: mine}, func(string, string) (*registry.Server, error) { return tt.now, tt.err })
				if len(at) != tt.requests {
					t.Errorf("requests at %v, want %d", at, tt.requests)
				}
			})
		})
	}
}

// A person is not asked again, no second task is begun, and no model paid twice, because a connection broke.
func TestNoRetryAfterQuestionsAndTasks(t *testing.T) {
	lost := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, "lost").With(errs.OutcomeKey, errs.OutcomeUnknown)
	for name, change := range map[string]func(*attempt){"asked": func(a *attempt) { a.asked.Store(true) }, "a task": func(a *attempt) {
		a.notify(mcp.Notification{Task: &mcp.Task{}})
	}, "a model is being asked": func(a *attempt) { a.usage.begin() }, "a model answered": func(a *attempt) {
		a.usage.begin()
		a.usage.add(&commonv1.Usage{OutputTokens: 1, ModelCalls: 1})
	}} {
		x := &execution{runState: runState{repeatable: true}, call: &inflight.Call{}}
		if !x.mayRepeat(lost) {
			t.Error("a reading tool cannot be repeated")
		}
		if change(&attempt{execution: x}); x.mayRepeat(lost) {
			t.Errorf("%s: it is repeated", name)
		}
	}
}

// A repeatable call whose question was refused as ambiguous is repeated, unless a person would be asked or a model paid twice.
func TestUnclearQuestions(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*runState)
		again  bool
	}{
		"no question was asked": {func(*runState) {}, true},
		"a person was asked":    {func(f *runState) { f.asked.Store(true) }, false},
		"a model answered":      {func(f *runState) { f.usage.begin(); f.usage.add(&commonv1.Usage{OutputTokens: 1, ModelCalls: 1}) }, false},
		"a model is asked":      {func(f *runState) { f.usage.begin() }, false},
	} {
		x := &execution{Caller: New(nil, nil, Deps{}), runState: runState{repeatable: true}}
		x.unclear.Store(true)
		tt.change(&x.runState)
		if _, got := x.planRetry(t.Context()); got != tt.again {
			t.Errorf("%s: made again: %v", name, got)
		}
	}
}

// A remembered connect failure ends a call at once. A connect that the call itself makes is retried.
func TestRememberedFailuresAreNotRetried(t *testing.T) {
	down := &mcp.Error{Kind: mcp.Unavailable, Transient: true, Message: "connection refused"}
	synctest.Test(t, func(t *testing.T) {
		connects := 0
		pool := conn.New(conn.Config{BreakAfter: 4}, func(context.Context, *registry.Server, string) (mcp.Client, error) {
			connects++
			return nil, down
		}, slog.New(slog.DiscardHandler))
		defer pool.Close()
		c := New(pool, inflight.New(inflight.Config{}, "p"), Deps{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		call := func(id string) (time.Duration, *errs.Error) {
			start := time.Now()
			err := c.Call(t.Context(), Request{
				Server: &registry.Server{ID: "s", UID: "u", Stdio: &registry.Stdio{Command: "x"}}, Tool: "look",
				User: "ann", Input: strictjson.Checked("{}"), CallID: id, Hashes: []inflight.Hash{{}},
			}, func(*mcppoolv1.CallToolResponse) error { return nil })
			return time.Since(start), errs.From(err)
		}
		if took, err := call("own"); took < 3*time.Second || connects != maxAttempts || errs.ReasonName(err.Reason) != "MCP_SERVER_UNAVAILABLE" {
			t.Errorf("its own failures: %v after %v and %d connects", err, took, connects)
		}
		if took, err := call("remembered"); took != 0 || connects != maxAttempts || errs.ReasonName(err.Reason) != "MCP_SERVER_UNAVAILABLE" ||
			err.Metadata[ClassKey] != string(Retryable) || err.Metadata[errs.OutcomeKey] != errs.OutcomeNotExecuted {
			t.Errorf("a remembered failure: %v %v after %v and %d connects", err, err.Metadata, took, connects)
		}
		<-time.After(time.Second)
		// The fourth failure in a row opens the circuit, in the middle of the call.
		if took, err := call("opens"); took > 2*time.Second || connects != 4 || errs.ReasonName(err.Reason) != "CIRCUIT_OPEN" {
			t.Errorf("the circuit opens: %v after %v and %d connects", err, took, connects)
		}
		if took, err := call("open"); took != 0 || connects != 4 || errs.ReasonName(err.Reason) != "CIRCUIT_OPEN" {
			t.Errorf("the circuit is open: %v after %v and %d connects", err, took, connects)
		}
	})
}

// Pauses differ, so that calls that failed together do not retry together.
func TestPauseJitters(t *testing.T) {
	var all []time.Duration
	for range 50 {
		all = append(all, pause(1, nil))
	}
	slices.Sort(all)
	if len(slices.Compact(all)) < 10 {
		t.Errorf("pauses are %v", all)
	}
}

// A cancelled call does not wait for its next attempt.
func TestCancelEndsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		start := time.Now()
		if sleep(ctx, time.Hour) || time.Since(start) != time.Millisecond {
			t.Errorf("slept for %v", time.Since(start))
		}
	})
}
