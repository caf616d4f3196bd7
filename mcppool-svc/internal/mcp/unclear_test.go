package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// bystander is a call that runs beside another, and asks nothing.
type bystander struct {
	person
	giveUp context.CancelCauseFunc
	ended  chan error
	warned atomic.Int32
}

// beside starts a call of hold, which ends when release is called, or of hang, which never ends. It returns once the call runs.
func beside(t *testing.T, c Client, tool string) *bystander {
	t.Helper()
	b := &bystander{person: person{answer: says}, ended: make(chan error, 1)}
	ctx, giveUp := context.WithCancelCause(t.Context())
	t.Cleanup(func() { giveUp(nil) })
	b.giveUp = giveUp
	holding, once := make(chan struct{}), sync.Once{}
	go func() {
		_, err := c.CallTool(ctx, Call{Name: tool, Arguments: strictjson.Checked(`{}`), Ask: b.ask, Notify: func(n Notification) {
			if n.Log != nil && n.Log.Logger == "pawl" {
				b.warned.Add(1)
			} else if n.Log != nil {
				once.Do(func() { close(holding) })
			}
		}})
		b.ended <- err
	}()
	<-holding
	return b
}

// overBoth runs a test over the two transports on which a question may name no call.
func overBoth(t *testing.T, test func(t *testing.T, c *client)) {
	t.Run("stdio", func(t *testing.T) { test(t, dial(t, mcptest.Good).(*client)) })
	t.Run("sse", func(t *testing.T) { test(t, overSSE(t, &mcptest.SSE{Mode: mcptest.Good}, Config{}).(*client)) })
}

// awaitHeld probes a connection until it holds n questions.
func awaitHeld(t *testing.T, c *client, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err := c.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		got := len(c.heldQuestions)
		c.mu.Unlock()
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d questions are held, want %d", got, n)
		}
	}
}

const unnamedForm = `{"n":-1}`

// A question belongs to the call that it names. If it names none, it is held until one call is left, and belongs to that.
func TestQuestionBelongsToOneCall(t *testing.T) {
	overBoth(t, func(t *testing.T, c *client) {
		var unnamed atomic.Int32
		c.onUnnamed = func() { unnamed.Add(1) }
		b := beside(t, c, "hold")
		p := &person{answer: says}
		if got, err := p.call(t, c, "form", `{}`); err != nil || !strings.Contains(got, "Ada") || unnamed.Load() != 0 {
			t.Errorf("named: %s, %v", got, err)
		}
		ended := make(chan string, 1)
		go func() {
			got, err := p.call(t, c, "form", unnamedForm)
			ended <- fmt.Sprint(got, err)
		}()
		awaitHeld(t, c, 1)
		if _, err := callTool(t, c, "release", `{}`); err != nil {
			t.Error(err)
		}
		if err := <-b.ended; err != nil {
			t.Error(err)
		}
		if got := <-ended; !strings.Contains(got, "Ada") || unnamed.Load() != 1 {
			t.Errorf("not named: %s", got)
		}
		if len(b.questions()) != 0 || b.warned.Load() != 0 {
			t.Errorf("another call was asked %v, or warned", b.questions())
		}
		request := serverRequest{ID: mcp.NewRequestId("late"), Method: "elicitation/create", Params: json.RawMessage(`{"message":"?","requestedSchema":{"type":"object"}}`)}
		if got := c.respond(request, nil).(mcp.JSONRPCError); !strings.Contains(got.Error.Message, "no tool call is running") {
			t.Errorf("outside a call: %v", got)
		}
	})
}

// If either call may be asking, the newest question is refused, so that the other one becomes clear: no person is asked for the
// wrong call.
func TestBothAsk(t *testing.T) {
	overBoth(t, func(t *testing.T, c *client) {
		type end struct {
			got string
			p   *person
		}
		ended := make(chan end)
		var unclear atomic.Int32
		for i := range 2 {
			go func() {
				p := &person{answer: func(context.Context, Question) (Answer, error) {
					return Answer{Action: Accept, Content: fmt.Appendf(nil, `{"name":"n%d"}`, i)}, nil
				}}
				raw, err := c.CallTool(t.Context(), Call{
					Name: "form", Arguments: strictjson.Checked(unnamedForm), Ask: p.ask, Unclear: func() { unclear.Add(1) },
				})
				ended <- end{fmt.Sprint(string(raw), err, i), p}
			}()
		}
		answered, refused := 0, 0
		for range 2 {
			e := <-ended
			mine := fmt.Sprintf(`{\"name\":\"n%s\"}`, e.got[len(e.got)-1:])
			switch asked := len(e.p.questions()); {
			case asked == 1 && strings.Contains(e.got, mine):
				answered++
			case asked == 0 && strings.Contains(e.got, "did not name the call"):
				refused++
			default:
				t.Errorf("asked %d times: %s", asked, e.got)
			}
		}
		// If one call ended before the other began, both questions were clear.
		if answered+refused != 2 || answered == 0 || refused == 1 && unclear.Load() != 2 {
			t.Errorf("%d answered, %d refused, %d told", answered, refused, unclear.Load())
		}
	})
}

// A question that does not become clear in time is refused, and the calls that it may belong to are warned. A call is warned once.
func TestUnclearForTooLong(t *testing.T) {
	overBoth(t, func(t *testing.T, c *client) {
		c.holdFor = 10 * time.Millisecond
		b := beside(t, c, "hold")
		p := &person{answer: says}
		for range 2 { // the second time the held call was warned already
			told := make(chan string, 10)
			raw, err := c.CallTool(t.Context(), Call{Name: "form", Arguments: strictjson.Checked(unnamedForm), Ask: p.ask, Notify: func(n Notification) {
				if n.Log != nil {
					told <- n.Log.Data
				}
			}})
			if got := string(raw); err != nil || !strings.Contains(got, "asked for input") || !strings.Contains(got, "did not name the call") ||
				!strings.Contains(got, "call again") {
				t.Errorf("not named: %s, %v", got, err)
			}
			if n := len(told); n != 1 {
				t.Fatalf("the asking call was warned %d times", n)
			}
			if text := <-told; !strings.Contains(text, "only one call at a time runs over a connection") {
				t.Errorf("the asking call was warned with %q", text)
			}
		}
		if n := b.warned.Load(); n != 1 {
			t.Errorf("the held call was warned %d times", n)
		}
		if len(p.questions())+len(b.questions()) != 0 {
			t.Error("a person was asked")
		}
		awaitHeld(t, c, 0)
		if _, err := callTool(t, c, "release", `{}`); err != nil {
			t.Error(err)
		}
		if err := <-b.ended; err != nil {
			t.Error(err)
		}
	})
}

// After a call that was given up and never answered, a question may still belong to it: no person is asked.
func TestQuestionAfterGivenUpCall(t *testing.T) {
	overBoth(t, func(t *testing.T, c *client) {
		if !c.Settled() {
			t.Error("unsettled before any call")
		}
		b := beside(t, c, "hang")
		b.giveUp(context.DeadlineExceeded) // a deadline gives no grace
		if err := <-b.ended; err == nil || As(err).Kind != Interrupted {
			t.Fatalf("the call that is given up ends with %v", err)
		}
		if c.Settled() {
			t.Error("settled after a call without answer")
		}
		p := &person{answer: says}
		if got, err := p.call(t, c, "form", unnamedForm); err != nil || !strings.Contains(got, "did not name the call") || len(p.questions()) != 0 {
			t.Errorf("asked %v: %s, %v", p.questions(), got, err)
		}
		if got, err := p.call(t, c, "form", `{}`); err != nil || !strings.Contains(got, "Ada") {
			t.Errorf("named: %s, %v", got, err)
		}
	})
}

// A server that asks without naming the call is remembered.
func TestAnonymousElicitorsAreRemembered(t *testing.T) {
	memory := newMemory()
	s := &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mcptest.Good)}
	c := dialServer(t, newConnector(t, Config{AnonymousElicitors: memory}), s)
	p := &person{answer: says}
	for _, tt := range [][2]string{{`{}`, ""}, {unnamedForm, "asks"}} {
		if _, err := p.call(t, c, "form", tt[0]); err != nil {
			t.Fatal(err)
		}
		if got := memory.Recall(s.Origin()); got != tt[1] {
			t.Errorf("%s: remembered %q, want %q", tt[0], got, tt[1])
		}
	}
}

// The refusal of an unclear question advises another isolation if users share the connection, else to call again.
func TestUnclearWhereShared(t *testing.T) {
	if text := unclearError(&registry.Server{ID: "s", Isolation: registry.Shared}, "input").Error(); !strings.Contains(text, "--isolation user") || strings.Contains(text, "call again") {
		t.Error(text)
	}
	for _, i := range []registry.Isolation{registry.PerUser, registry.PerTask} {
		if text := unclearError(&registry.Server{ID: "s", Isolation: i}, "input").Error(); strings.Contains(text, "--isolation") || !strings.Contains(text, "call again") {
			t.Error(text)
		}
	}
}
