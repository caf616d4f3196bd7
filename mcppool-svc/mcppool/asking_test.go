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

// unnamed is the input of tools that ask without saying for which call.
const unnamed = `{"n":-1}`

// askers runs a test over both transports whose servers ask beside their calls, each with a server of which nothing is known yet.
func askers(t *testing.T, more map[string]any, test func(t *testing.T, s *suite)) {
	t.Run("stdio", func(t *testing.T) { test(t, start(t, remembering(t, more))) })
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

// ask starts a call that asks, without saying that it is this one that does.
func (s *suite) ask(t *testing.T, user, id string) *conversation {
	t.Helper()
	return converse(t, s.as(user), &mcppoolv1.CallToolRequest{Name: "form", CallId: id, InputJson: unnamed})
}

// known shows the pool that the server asks.
func (s *suite) known(t *testing.T) {
	t.Helper()
	v := s.ask(t, "ann", "first")
	v.settle(v.question(), "Ada")
}

// settle answers with a name, and wants it to come to this very call.
func (v *conversation) settle(q *mcppoolv1.CallInputRequired, name string) {
	v.t.Helper()
	if err := v.answer(q, accept, fmt.Sprintf(`{"name":%q}`, name)); err != nil {
		v.t.Fatal(err)
	}
	v.wantEnd(fmt.Sprintf(`{"name":%q}`, name))
}

// Calls of one user that ask at once are all answered, and each answer comes to its own call, in any order.
func TestAskingAtOnce(t *testing.T) {
	askers(t, nil, func(t *testing.T, s *suite) {
		// Nothing is known of the server. While its first question is open another call begins.
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
		// One after the other they need no more.
		for i := range 3 {
			v := s.ask(t, "ann", fmt.Sprintf("d%d", i))
			v.settle(v.question(), "Ada")
		}
		if l := s.pool.Load(); l.Used != 5 {
			t.Errorf("%d connections afterwards", l.Used)
		}
	})
}

// A server that is not known to ask, and asks in two calls at once: a tool that may run twice is called again over a connection of
// its own, unnoticed by callers.
func TestFirstQuestionsAtOnce(t *testing.T) {
	askers(t, map[string]any{"tools": map[string]any{"form": map[string]any{"effect": "read"}}}, func(t *testing.T, s *suite) {
		one, two := s.ask(t, "ann", "c1"), s.ask(t, "ann", "c2")
		q1, q2 := one.question(), two.question()
		two.settle(q2, "Two")
		one.settle(q1, "One")
	})
}

// A call that may not run twice is not: its caller learns that a question was refused, and calling again helps.
func TestFirstQuestionsOfWrites(t *testing.T) {
	askers(t, nil, func(t *testing.T, s *suite) {
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
			t.Error("both were refused; one of them was clear when the other had come back")
		}
		v := s.ask(t, "ann", "again")
		v.settle(v.question(), "Ada")
	})
}

// Beyond the limit calls wait, say so, and go on when their turn comes.
func TestAskingOverTheLimit(t *testing.T) {
	askers(t, map[string]any{"maxConnections": 2}, func(t *testing.T, s *suite) {
		s.known(t)
		one, two := s.ask(t, "ann", "c1"), s.ask(t, "ann", "c2")
		q1, q2 := one.question(), two.question()
		three, four := s.ask(t, "ann", "c3"), s.ask(t, "ann", "c4")
		for _, v := range []*conversation{three, four} {
			m, err := v.stream.Recv()
			if text := m.GetLog().GetDataJson(); err != nil || !strings.Contains(text, "the call waits: MCP server fake asks for input") ||
				!strings.Contains(text, "answer the questions that are open") {
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

// A cancel of one leaves the other's question open; one that waits for its turn can be cancelled, too.
func TestCancelOneThatAsks(t *testing.T) {
	askers(t, map[string]any{"maxConnections": 2}, func(t *testing.T, s *suite) {
		s.known(t)
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

// A server that dies under one question leaves the others open.
func TestAskingServerDies(t *testing.T) {
	s := start(t, remembering(t, map[string]any{"maxConnections": 2}))
	s.known(t)
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
	waiting.settle(waiting.question(), "Three") // over a new one
	one.settle(q, "One")
}

// Only servers that ask are split: one that remembers in its process goes on doing so, also when its calls overlap.
func TestOnlyAskersAreSplit(t *testing.T) {
	s := start(t, remembering(t, nil))
	ann := s.as("ann")
	pid := told(t, ann, "t1", "info")
	held := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "hold", CallId: "c1", SessionId: "t1"})
	if _, err := held.stream.Recv(); err != nil {
		t.Fatal(err)
	}
	named := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "form", CallId: "c2"}) // it says for which call
	q := named.question()
	if got := told(t, ann, "t2", "info"); got != pid {
		t.Errorf("another process: %s", got)
	}
	named.settle(q, "Ada")
	told(t, ann, "t2", "release")
	held.end()
	if l := s.pool.Load(); l.Used != 1 {
		t.Errorf("%d connections", l.Used)
	}
}

// That a server asks is remembered with its registration, and outlives the pool.
func TestAskersOutliveThePool(t *testing.T) {
	data := t.TempDir()
	t.Run("learnt", func(t *testing.T) {
		cfg := remembering(t, nil)
		cfg.DataDir = data
		start(t, cfg).known(t)
	})
	cfg := remembering(t, nil)
	cfg.DataDir = data
	s := start(t, cfg)
	held := converse(t, s.as("ann"), &mcppoolv1.CallToolRequest{Name: "hold", CallId: "c1"})
	if _, err := held.stream.Recv(); err != nil {
		t.Fatal(err)
	}
	v := s.ask(t, "ann", "c2") // not over the connection of the one that is held
	v.settle(v.question(), "Ada")
	if l := s.pool.Load(); l.Used != 2 {
		t.Errorf("%d connections", l.Used)
	}
	if _, err := s.as("ann").CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: "c1"}); err != nil {
		t.Fatal(err)
	}
	held.end()
}

// Users who share a connection are asked nothing that names no call, and get no further ones.
func TestSharedAskers(t *testing.T) {
	s := start(t, remembering(t, map[string]any{"isolation": "shared"}))
	for _, user := range []string{"ann", "bob"} {
		s.ask(t, user, "c1").wantEnd("--isolation user")
	}
	if l := s.pool.Load(); l.Used != 1 {
		t.Errorf("%d connections", l.Used)
	}
}
