package mcppool

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// unnamed is the input with which tools ask without naming the call.
const unnamed = `{"n":-1}`

// overStdioAndSSE runs a test over both transports on which a question may name no call. The pool does not know yet that the server asks.
func overStdioAndSSE(t *testing.T, more map[string]any, test func(t *testing.T, s *suite)) {
	t.Run("stdio", func(t *testing.T) { test(t, start(t, fakeWith(t, more))) })
	t.Run("sse", func(t *testing.T) {
		web := httptest.NewServer(&mcptest.SSE{Mode: mcptest.Good})
		t.Cleanup(web.Close)
		server := map[string]any{"type": "sse", "url": web.URL + "/sse"}
		for k, v := range more {
			server[k] = v
		}
		test(t, start(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{"fake": server}})}}))
	})
}

// ask starts a call that asks a question without naming the call.
func (s *suite) ask(t *testing.T, user, id string) *conversation {
	t.Helper()
	return converse(t, s.as(user), &mcppoolv1.CallToolRequest{Name: "form", CallId: id, InputJson: unnamed})
}

// learnsAsking lets the pool learn that the server asks.
func (s *suite) learnsAsking(t *testing.T) {
	t.Helper()
	v := s.ask(t, "ann", "first")
	v.settle(v.question(), "Ada")
}

// settle answers with a name, and fails unless this call receives it.
func (v *conversation) settle(q *mcppoolv1.CallInputRequired, name string) {
	v.t.Helper()
	if err := v.answer(q, accept, fmt.Sprintf(`{"name":%q}`, name)); err != nil {
		v.t.Fatal(err)
	}
	v.wantEnd(fmt.Sprintf(`{"name":%q}`, name))
}

// Calls of one user that ask at once are all answered, and each answer comes to its own call, in any order.
func TestAskingAtOnce(t *testing.T) {
	overStdioAndSSE(t, nil, func(t *testing.T, s *suite) {
		// The pool knows nothing of the server yet: other calls begin while its first question is open.
		first := s.ask(t, "ann", "c0")
		open := []*mcppoolv1.CallInputRequired{first.question()}
		calls := []*conversation{first}
		for i := range 3 {
			v := s.ask(t, "ann", fmt.Sprintf("c%d", i+1))
			calls, open = append(calls, v), append(open, v.question())
		}
		bob := s.ask(t, "bob", "c0")
		theirs := bob.question()
		for i := len(calls) - 1; i >= 0; i-- {
			calls[i].settle(open[i], fmt.Sprintf("name-%d", i))
		}
		bob.settle(theirs, "Bob")
		if l := s.pool.Load(); l.Used != 5 {
			t.Errorf("%d connections, want one for each call that ran at once", l.Used)
		}
		// Calls one after the other need no further connection.
		for i := range 3 {
			v := s.ask(t, "ann", fmt.Sprintf("d%d", i))
			v.settle(v.question(), "Ada")
		}
		if l := s.pool.Load(); l.Used != 5 {
			t.Errorf("%d connections afterwards", l.Used)
		}
	})
}

// A server that is not known to ask asks in two calls at once: a repeatable tool is called again over a connection of its own, and
// its caller does not notice.
func TestFirstQuestionsAtOnce(t *testing.T) {
	overStdioAndSSE(t, map[string]any{"tools": map[string]any{"form": map[string]any{"effect": "read"}}}, func(t *testing.T, s *suite) {
		one, two := s.ask(t, "ann", "c1"), s.ask(t, "ann", "c2")
		q1, q2 := one.question(), two.question()
		two.settle(q2, "Two")
		one.settle(q1, "One")
	})
}

// A call that is not repeatable runs once: its caller learns that a question was refused, and calling again helps.
func TestFirstQuestionsOfWrites(t *testing.T) {
	overStdioAndSSE(t, nil, func(t *testing.T, s *suite) {
		refused := make(chan bool, 2)
		for i := range 2 {
			v := s.ask(t, "ann", fmt.Sprintf("c%d", i))
			go func() {
				for {
					m, err := v.stream.Recv()
					switch {
					case err != nil:
						t.Error(err)
						refused <- false
						return
					case m.GetResult() != nil:
						text := m.GetResult().GetContent()[0].GetText()
						if no := strings.Contains(text, "call again"); no || strings.Contains(text, v.id) {
							refused <- no
							return
						}
						t.Errorf("%s ended with %q", v.id, text)
						refused <- false
						return
					case m.GetInputRequired() != nil:
						if err := v.answer(m.GetInputRequired(), accept, fmt.Sprintf(`{"name":%q}`, v.id)); err != nil {
							t.Error(err)
						}
					}
				}
			}()
		}
		if a, b := <-refused, <-refused; a && b {
			t.Error("both were refused; once one had ended, the other's question was unambiguous")
		}
		v := s.ask(t, "ann", "again")
		v.settle(v.question(), "Ada")
	})
}

// Beyond the limit calls wait, say so, and go on when their turn comes.
func TestAskingOverTheLimit(t *testing.T) {
	overStdioAndSSE(t, map[string]any{"maxConnections": 2}, func(t *testing.T, s *suite) {
		s.learnsAsking(t)
		one, two := s.ask(t, "ann", "c1"), s.ask(t, "ann", "c2")
		q1, q2 := one.question(), two.question()
		three, four := s.ask(t, "ann", "c3"), s.ask(t, "ann", "c4")
		for _, v := range []*conversation{three, four} {
			m, err := v.stream.Recv()
			if text := m.GetLog().GetDataJson(); err != nil || !strings.Contains(text, "the call waits: MCP server fake asks for input") ||
				!strings.Contains(text, "answer the open questions") {
				t.Errorf("a call that waits says %v, %v", m, err)
			}
		}
		two.settle(q2, "Two")
		one.settle(q1, "One")
		q3, q4 := three.question(), four.question()
		three.settle(q3, "Three")
		four.settle(q4, "Four")
		if l := s.pool.Load(); l.Used != 2 || l.Waiting != 0 || l.Refused != 0 {
			t.Errorf("load = %+v", l)
		}
	})
}

// Cancelling a call leaves the questions of others open; a call that waits for its turn can be cancelled too.
func TestCancelCallThatAsks(t *testing.T) {
	overStdioAndSSE(t, map[string]any{"maxConnections": 2}, func(t *testing.T, s *suite) {
		s.learnsAsking(t)
		one, two := s.ask(t, "ann", "c1"), s.ask(t, "ann", "c2")
		one.question()
		q := two.question()
		three := s.ask(t, "ann", "c3")
		if _, err := three.stream.Recv(); err != nil { // it waits
			t.Fatal(err)
		}
		for _, id := range []string{"c3", "c1"} {
			if _, err := s.as("ann").CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: id}); err != nil {
				t.Fatal(err)
			}
		}
		three.end().want(t, codes.Canceled, "CANCELLED", "NOT_EXECUTED")
		one.wantEnd(`{"action":"cancel"}`)
		two.settle(q, "Two")
		v := s.ask(t, "ann", "c4")
		v.settle(v.question(), "Four")
	})
}

// If one process of a server dies with its question, the questions of its other processes stay open.
func TestAskingServerDies(t *testing.T) {
	s := start(t, fakeWith(t, map[string]any{"maxConnections": 2}))
	s.learnsAsking(t)
	dying := converse(t, s.as("ann"), &mcppoolv1.CallToolRequest{Name: "askcrash", CallId: "c1", InputJson: unnamed})
	crash := dying.question()
	one := s.ask(t, "ann", "c2")
	q := one.question()
	waiting := s.ask(t, "ann", "c3")
	if _, err := waiting.stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := dying.answer(crash, decline, ""); err != nil {
		t.Fatal(err)
	}
	dying.end().want(t, codes.Unavailable, "MCP_SERVER_UNAVAILABLE", "UNKNOWN")
	waiting.settle(waiting.question(), "Three") // over a new connection
	one.settle(q, "One")
}

// Only a server that asks without naming the call gets a connection per call. Others keep one process, also when calls overlap.
func TestOtherServersKeepOneConnection(t *testing.T) {
	s := start(t, fakeWith(t, nil))
	ann := s.as("ann")
	pid := textIn(t, ann, "t1", "info")
	held := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "hold", CallId: "c1", SessionId: "t1"})
	if _, err := held.stream.Recv(); err != nil {
		t.Fatal(err)
	}
	named := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "form", CallId: "c2"}) // its question names the call
	q := named.question()
	if got := textIn(t, ann, "t2", "info"); got != pid {
		t.Errorf("another process: %s", got)
	}
	named.settle(q, "Ada")
	textIn(t, ann, "t2", "release")
	held.end()
	if l := s.pool.Load(); l.Used != 1 {
		t.Errorf("%d connections", l.Used)
	}
}

// That a server asks without naming the call is stored with its registration, and outlives the pool.
func TestAnonymousElicitorsAreStored(t *testing.T) {
	data := t.TempDir()
	t.Run("learnt", func(t *testing.T) {
		cfg := fakeWith(t, nil)
		cfg.DataDir = data
		start(t, cfg).learnsAsking(t)
	})
	cfg := fakeWith(t, nil)
	cfg.DataDir = data
	s := start(t, cfg)
	held := converse(t, s.as("ann"), &mcppoolv1.CallToolRequest{Name: "hold", CallId: "c1"})
	if _, err := held.stream.Recv(); err != nil {
		t.Fatal(err)
	}
	v := s.ask(t, "ann", "c2") // not over the connection of the held call
	v.settle(v.question(), "Ada")
	if l := s.pool.Load(); l.Used != 2 {
		t.Errorf("%d connections", l.Used)
	}
	if _, err := s.as("ann").CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: "c1"}); err != nil {
		t.Fatal(err)
	}
	held.end()
}

// On a connection that users share, a question that names no call is refused, and no further connection is made.
func TestAnonymousQuestionOnSharedConnection(t *testing.T) {
	s := start(t, fakeWith(t, map[string]any{"isolation": "shared"}))
	for _, user := range []string{"ann", "bob"} {
		s.ask(t, user, "c1").wantEnd("--isolation user")
	}
	if l := s.pool.Load(); l.Used != 1 {
		t.Errorf("%d connections", l.Used)
	}
}
