package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// person answers questions, and remembers them.
type person struct {
	answer func(context.Context, Question) (Answer, error)

	mu    sync.Mutex
	asked []Question // guarded by mu
	tasks []Task     // guarded by mu
}

func (p *person) ask(ctx context.Context, q Question) (Answer, error) {
	p.mu.Lock()
	p.asked = append(p.asked, q)
	p.mu.Unlock()
	return p.answer(ctx, q)
}

func (p *person) notify(n Notification) {
	if n.Task != nil {
		p.mu.Lock()
		p.tasks = append(p.tasks, *n.Task)
		p.mu.Unlock()
	}
}

func (p *person) questions() []Question {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func (p *person) states() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, t := range p.tasks {
		list = append(list, t.Status)
	}
	return list
}

func (p *person) call(t *testing.T, c Client, name, args string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // reaching it means that the awaited event never came
	defer cancel()
	raw, err := c.CallTool(ctx, Call{Name: name, Arguments: strictjson.Checked(args), Notify: p.notify, Ask: p.ask, Task: true, TaskTTL: time.Hour})
	return string(raw), err
}

// says answers with a first or last name, depending on the question.
func says(_ context.Context, q Question) (Answer, error) {
	name := "Ada"
	if strings.Contains(q.Message, "Last") {
		name = "Lovelace"
	}
	return Answer{Action: Accept, Content: []byte(`{"name":"` + name + `"}`)}, nil
}

func declines(context.Context, Question) (Answer, error) {
	return Answer{Action: Decline}, nil
}

// waits waits until the question ends.
func waits(ctx context.Context, _ Question) (Answer, error) {
	<-ctx.Done()
	return Answer{}, ctx.Err()
}

// Elicitation up to 2025-11-25, over stdio.
func TestAsking(t *testing.T) {
	const ada, lovelace = `{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}`, `{\"action\":\"accept\",\"content\":{\"name\":\"Lovelace\"}}`
	tests := []struct {
		tool, args string
		answer     func(context.Context, Question) (Answer, error)
		want       string
		asked      int
	}{
		{"form", `{}`, says, ada, 1},
		{"form", `{"n":-1}`, says, ada, 1}, // only one call can be meant
		{"form", `{}`, declines, `{\"action\":\"decline\"}`, 1},
		{"form2", `{}`, says, ada + " " + lovelace, 2},
		{"both", `{}`, says, ada + " " + lovelace, 2},
		{"page", `{}`, declines, `{\"action\":\"decline\"}`, 1},
		{"page", `{"n":1}`, waits, `{\"action\":\"accept\"}`, 1}, // the server says that it was done
		{"badpage", `{}`, says, `url must be https`, 0},
		{"huge", `{"n":100000}`, says, `requestedSchema has more than 64 KiB`, 0},
		{"askanyway", `{}`, waits, `done`, -1},
	}
	c := dial(t, mcptest.Good)
	for _, tt := range tests {
		t.Run(tt.tool+tt.args, func(t *testing.T) {
			p := &person{answer: tt.answer}
			got, err := p.call(t, c, tt.tool, tt.args)
			if err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("result = %s, %v; want %s", got, err, tt.want)
			}
			if n := len(p.questions()); tt.asked >= 0 && n != tt.asked {
				t.Errorf("asked %d times, want %d", n, tt.asked)
			}
		})
	}
}

func TestAskingSaysWhat(t *testing.T) {
	p := &person{answer: says}
	c := dial(t, mcptest.Good)
	if _, err := p.call(t, c, "form2", `{}`); err != nil {
		t.Fatal(err)
	}
	if _, err := p.call(t, c, "page", `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	q := p.questions()
	if q[0].ID == q[1].ID || q[0].Message != "First name?" || !strings.Contains(q[0].Schema, `"minLength":2`) || q[0].State != "" {
		t.Errorf("asked %+v", q)
	}
	if q[2].URL != "https://pay.example/1" || q[2].Schema != "" {
		t.Errorf("asked %+v", q[2])
	}
}

func TestPageFirst(t *testing.T) {
	accepts := func(context.Context, Question) (Answer, error) {
		return Answer{Action: Accept}, nil
	}
	for args, answer := range map[string]func(context.Context, Question) (Answer, error){`{}`: accepts, `{"n":1}`: waits} {
		p := &person{answer: answer}
		got, err := p.call(t, dial(t, mcptest.Good), "pagefirst", args)
		if err != nil || !strings.Contains(got, "opened") || len(p.questions()) != 1 {
			t.Errorf("%s: %s, %v, asked %v", args, got, err, p.questions())
		}
	}
	p := &person{answer: declines}
	_, err := p.call(t, dial(t, mcptest.Good), "pagefirst", `{}`)
	if e := As(err); err == nil || e.Kind != Answered || e.Code != mcp.URL_ELICITATION_REQUIRED || !strings.Contains(e.Message, "was not opened") {
		t.Errorf("error = %v", err)
	}
}

// A question that the server withdraws is no longer answered.
func TestWithdrawnQuestion(t *testing.T) {
	c := dial(t, mcptest.Good)
	p := &person{answer: func(ctx context.Context, q Question) (Answer, error) {
		if q.Message != "Never mind?" {
			return says(ctx, q)
		}
		if _, err := callTool(t, c, "release", `{}`); err != nil {
			t.Error(err)
		}
		return waits(ctx, q)
	}}
	got, err := p.call(t, c, "withdraw", `{}`)
	if err != nil || !strings.Contains(got, "withdrawn") || len(p.questions()) != 2 {
		t.Errorf("result = %s, %v, asked %v", got, err, p.questions())
	}
}

// A call that ends closes its questions; the server is told that they were not answered.
func TestAskingEndsWithTheCall(t *testing.T) {
	c := dial(t, mcptest.Good)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	raw, err := c.CallTool(ctx, Call{Name: "form", Arguments: strictjson.Checked(`{}`), Ask: func(ctx context.Context, _ Question) (Answer, error) {
		cancel(errors.New("enough"))
		<-ctx.Done()
		close(ended)
		return Answer{}, ctx.Err()
	}})
	<-ended
	if err != nil || !strings.Contains(string(raw), `cancel`) {
		t.Errorf("result = %s, %v; want the tool's answer within the grace", raw, err)
	}
	_, err = c.CallTool(t.Context(), Call{Name: "askcrash", Arguments: strictjson.Checked(`{}`), Ask: says})
	if e := As(err); e.Kind != Unavailable || !e.MayHaveRun {
		t.Errorf("crash: %v", err)
	}
}

// askingServer is a server of mcp-go whose tools ask.
func askingServer() *server.MCPServer {
	s := server.NewMCPServer("asking", "1.0", server.WithToolCapabilities(true), server.WithElicitation())
	s.AddTool(mcp.NewTool("form"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message: "Your name?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
		}})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprint(result.Action, result.Content)), nil
	})
	s.AddTool(mcp.NewTool("rounds"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer := server.ElicitationResponse(r.Params.InputResponses, "name"); answer != nil {
			return mcp.NewToolResultText(fmt.Sprint(r.Params.RequestState, answer.Action, answer.Content)), nil
		}
		return server.NewInputRequestBuilder("state-1").Elicit("name", mcp.ElicitationParams{
			Message: "Your name?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
		}).ToolResult(), nil
	})
	return s
}

// Requests of the server come on the call's own stream. The answers bypass mcp-go's client, which gives up after 30 s.
func TestHTTPAsking(t *testing.T) {
	c := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, handshaking(server.NewStreamableHTTPServer(askingServer())))))
	for _, tool := range []string{"form", "rounds"} { // with a handshake, mcp-go asks in a request for rounds too
		p := &person{answer: says}
		got, err := p.call(t, c, tool, `{}`)
		if err != nil || !strings.Contains(got, "acceptmap[name:Ada]") || len(p.questions()) != 1 {
			t.Errorf("%s: %s, %v, asked %v", tool, got, err, p.questions())
		}
	}
}

// Several calls over one HTTP connection, each with a question of its own.
func TestHTTPAskingAtOnce(t *testing.T) {
	c := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, handshaking(server.NewStreamableHTTPServer(askingServer())))))
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			p := &person{answer: func(context.Context, Question) (Answer, error) {
				return Answer{Action: Accept, Content: fmt.Appendf(nil, `{"name":"n%d"}`, i)}, nil
			}}
			got, err := p.call(t, c, "form", `{}`)
			if err != nil || !strings.Contains(got, fmt.Sprintf("n%d]", i)) {
				t.Errorf("call %d: %s, %v", i, got, err)
			}
		})
	}
	all.Wait()
}

// Revision 2026-07-28 over HTTP, with mcp-go's server.
func TestHTTPRounds(t *testing.T) {
	s := webServer(serveWeb(t, server.NewStreamableHTTPServer(askingServer(), server.WithStateLess(true))))
	connector := newConnector(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := connector.connectBy(ctx, s, "ann", byDiscovery)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	p := &person{answer: says}
	got, err := p.call(t, c, "rounds", `{}`)
	if err != nil || !strings.Contains(got, "state-1acceptmap[name:Ada]") {
		t.Errorf("%s, %v", got, err)
	}
	if q := p.questions(); len(q) != 1 || q[0].ID != "r1:name" || !strings.Contains(q[0].State, "state-1") {
		t.Errorf("asked %+v", q)
	}
}

func TestBuiltinAsking(t *testing.T) {
	c := dialServer(t, newConnector(t, Config{Builtins: builtinOf(askingServer())}), &registry.Server{ID: "b", Builtin: &registry.Builtin{Name: "asking"}})
	for _, tool := range []string{"form", "rounds"} {
		p := &person{answer: says}
		got, err := p.call(t, c, tool, `{}`)
		if err != nil || !strings.Contains(got, "acceptmap[name:Ada]") {
			t.Errorf("%s: %s, %v", tool, got, err)
		}
	}
}

func builtinOf(s *server.MCPServer) map[string]OpenBuiltin {
	return map[string]OpenBuiltin{"asking": func(*registry.Builtin) (*server.MCPServer, io.Closer, error) { return s, &closeCounter{}, nil }}
}

// The transport of 2024-11-05, and a connection that closes while a question is open.
func TestSSEAsking(t *testing.T) {
	c := overSSE(t, &mcptest.SSE{Mode: mcptest.Good}, Config{})
	p := &person{answer: says}
	got, err := p.call(t, c, "form2", `{}`)
	if err != nil || !strings.Contains(got, "Ada") || !strings.Contains(got, "Lovelace") || len(p.questions()) != 2 {
		t.Errorf("result = %s, %v, asked %v", got, err, p.questions())
	}
	p = &person{answer: func(ctx context.Context, q Question) (Answer, error) {
		go func() { _ = c.Close() }()
		return waits(ctx, q)
	}}
	if _, err := p.call(t, c, "form", `{}`); err == nil || As(err).Kind != Unavailable {
		t.Errorf("closed: %v", err)
	}
}

// A connection that closes answers no question in a person's place: the server's result of that would count as the call's.
func TestClosingAnswersNothing(t *testing.T) {
	c := overSSE(t, &mcptest.SSE{Mode: mcptest.Good}, Config{}).(*client)
	p := &person{answer: waits}
	defer c.removeCall(c.addCall(t.Context(), Call{Ask: p.ask}), nil)
	c.finish() // the first thing that Close does
	request := serverRequest{ID: mcp.NewRequestId("q"), Method: "elicitation/create", Params: json.RawMessage(`{"message":"?","requestedSchema":{"type":"object"}}`)}
	if got := c.respond(request, nil); got != nil {
		t.Errorf("the server is told %+v", got)
	}
}
