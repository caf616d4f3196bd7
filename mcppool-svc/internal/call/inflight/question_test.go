package inflight

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

// anything accepts every answer.
func anything(mcp.Answer) error { return nil }

// oneCall returns Calls with one running call.
func oneCall(t *testing.T) (*Calls, *Call) {
	t.Helper()
	l := New(Config{}, "p")
	c, _, err := l.Begin(Start{User: "ann", ID: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

func TestQuestionsAreBounded(t *testing.T) {
	l, c := oneCall(t)
	for i := range maxAsked {
		id := fmt.Sprint(i)
		if _, err := c.Ask(mcp.Question{ID: id}, anything); err != nil {
			t.Fatal(err)
		}
		if i < maxOpen-1 {
			continue
		}
		if i == maxOpen-1 {
			if _, err := c.Ask(mcp.Question{ID: "more"}, anything); !errors.Is(err, errTooMany) {
				t.Errorf("%d open: %v", maxOpen+1, err)
			}
		}
		c.Close(id)
	}
	if _, err := c.Ask(mcp.Question{ID: "more"}, anything); !errors.Is(err, errTooMany) {
		t.Errorf("after %d: %v", maxAsked, err)
	}
	if _, err := c.Ask(mcp.Question{ID: "0"}, anything); !errors.Is(err, errTwice) {
		t.Errorf("the same id: %v", err)
	}
	follower, err := c.Follow()
	if err != nil {
		t.Fatal(err)
	}
	if events := follower.Take(); len(events) != maxOpen-1 || events[0].Question.ID != "0" || events[8].Question.ID != "8" {
		t.Errorf("a late follower gets %v", events)
	}
	l.End(c, End{})
}

func TestAnswersOnce(t *testing.T) {
	l, c := oneCall(t)
	answered, err := c.Ask(mcp.Question{ID: "q"}, func(a mcp.Answer) error {
		if a.Action != mcp.Accept {
			return errors.New("not so")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(action mcp.Action, content string) error {
		return l.Answer("ann", "c1", "q", mcp.Answer{Action: action, Content: []byte(content)})
	}
	if err := answer(mcp.Decline, ""); err == nil || err.Error() != "not so" {
		t.Errorf("refused answer: %v", err)
	}
	if err := answer(mcp.Accept, `{"a":1}`); err != nil {
		t.Fatal(err)
	}
	if a := <-answered; string(a.Content) != `{"a":1}` {
		t.Errorf("got %s", a.Content)
	}
	for _, step := range []func(){func() { c.Close("q") }, func() { l.End(c, End{}) }, func() {}} {
		if err := answer(mcp.Accept, `{ "a": 1 }`); err != nil {
			t.Errorf("the same again: %v", err)
		}
		if e := errs.From(answer(mcp.Accept, `{"a":2}`)); e.Code != codes.FailedPrecondition || errs.ReasonName(e.Reason) != "WAIT_NOT_OPEN" {
			t.Errorf("another: %v", e)
		}
		step()
	}
}

// Questions are not lost among progress and logs, and the newest state of a task is kept.
func TestFollowerKeepsQuestions(t *testing.T) {
	_, c := oneCall(t)
	follower, err := c.Follow()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ask(mcp.Question{ID: "q"}, anything); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxPending {
		c.Notify(mcp.Notification{Task: &mcp.Task{ID: "t", Message: fmt.Sprint(i)}})
		c.Notify(mcp.Notification{Log: &mcp.Log{}})
	}
	events := follower.Take()
	if len(events) != maxPending || events[0].Question == nil {
		t.Errorf("%d events, the first %v", len(events), events[0])
	}
	late, err := c.Follow()
	if err != nil {
		t.Fatal(err)
	}
	if events := late.Take(); len(events) != 2 || events[0].Task.Message != fmt.Sprint(3*maxPending-1) || events[1].Question.ID != "q" {
		t.Errorf("a late follower gets %v", events)
	}
}

// Adopt enters a call that another pool began, even after AttachCall did not find it. While its outcome is unknown it can be adopted
// again.
func TestAdopt(t *testing.T) {
	l := New(Config{}, "p")
	q := Query{User: "ann", ID: "c1", Pool: "other", Session: "s", Epoch: 2}
	if _, err := l.Attach(q); errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeUnknown {
		t.Fatal(err)
	}
	unknown := errs.New(codes.Unavailable, 0, "x").With(errs.OutcomeKey, errs.OutcomeUnknown)
	for range 2 {
		c, first, err := l.Adopt(q, nil)
		if err != nil || !first {
			t.Fatal(first, err)
		}
		if again, first, err := l.Adopt(q, nil); again != c || first || err != nil {
			t.Errorf("again: %v, %v", first, err)
		}
		l.End(c, End{Err: unknown})
	}
	if _, _, err := l.Begin(Start{User: "ann", ID: "c1"}); errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeUnknown {
		t.Errorf("a late CallTool: %v", err)
	}
	c, _, err := l.Adopt(q, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.End(c, End{})
	if got, err := l.Attach(q); err != nil || got != c {
		t.Errorf("after its end: %v", err)
	}
	for what, q := range map[string]Query{
		"an older owner":  {User: "ann", ID: "c2", Session: "s", Epoch: 1},
		"another request": {User: "ann", ID: "c1", Hash: Hash{1}},
		"no name":         {User: "ann", ID: Unnamed("x")},
	} {
		if _, _, err := l.Adopt(q, nil); errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeUnknown {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := l.Load().Running; n != 0 {
		t.Errorf("%d calls count as running", n)
	}
}
