package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const defaultWindow = 128_000

// Server plays a script over HTTP. It is safe for concurrent use.
type Server struct {
	script Script
	log    *slog.Logger
	mux    *http.ServeMux

	mu       sync.Mutex
	used     []bool        // by turn
	requests []*Request    // in the order of their arrival
	changed  chan struct{} // closed and replaced when requests change
	calls    int           // tool calls so far; their ids are unique
}

// New returns a server for a script. log may be nil.
func New(script *Script, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{script: *script, log: log, mux: http.NewServeMux(), used: make([]bool, len(script.Turns)), changed: make(chan struct{})}
	if s.script.Window == 0 {
		s.script.Window = defaultWindow
	}
	s.mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, "openai") })
	s.mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, "anthropic") })
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Requests returns copies of all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, 0, len(s.requests))
	for _, r := range s.requests {
		out = append(out, *r)
	}
	return out
}

// Wait waits until done returns true for the requests so far. It returns the error of ctx if that ends first.
func (s *Server) Wait(ctx context.Context, done func([]Request) bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if done(s.Requests()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// update calls change with s.mu held, and wakes Wait.
func (s *Server) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// answer is a response, independent of the provider.
type answer struct {
	text  string
	calls []answerCall
	stop  string
	usage Usage
}

type answerCall struct{ id, name, arguments string }

// serve checks a request, records it, and answers it with a turn.
func (s *Server) serve(w http.ResponseWriter, hr *http.Request, provider string) {
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return
	}
	r := &Request{Provider: provider, Body: body, Header: hr.Header, Turn: -1, At: time.Now()}
	check := s.script.readOpenAI
	if provider == "anthropic" {
		check = s.script.readAnthropic
	}
	p := catch(func() { check(r) })
	var turn *Turn
	s.update(func() {
		if p == nil {
			r.measure(s.requests)
			p = s.checkWindow(r)
		}
		if p == nil {
			turn, p = s.nextTurn(r)
		}
		if p != nil {
			r.Problem = p.message
		}
		s.requests = append(s.requests, r)
	})
	status := http.StatusOK
	left := false
	switch {
	case p != nil:
		status = s.fail(w, provider, p)
	case turn.Error != 0 && sleep(hr.Context(), turn.Delay):
		if turn.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(turn.RetryAfter))
		}
		status = s.fail(w, provider, &problem{status: turn.Error, kind: "server_error", message: "scripted error"})
	default:
		left = !s.send(hr.Context(), w, r, turn)
	}
	s.update(func() { r.Status, r.Left, r.End = status, left, time.Now() })
	s.log.Info("request", "provider", provider, "tokens", r.Tokens, "prefix", r.Prefix, "cached", r.Cached, "turn", r.Turn, "status", status, "left", left, "problem", r.Problem)
	if turn != nil && turn.Cut > 0 {
		panic(http.ErrAbortHandler) // the documented way to break a connection
	}
}

// checkWindow checks that the prompt and the longest answer fit into the window.
func (s *Server) checkWindow(r *Request) *problem {
	replyTokens := r.maxTokens
	switch {
	case r.Tokens+replyTokens <= s.script.Window:
		return nil
	case r.Provider == "openai":
		p := bad("messages", "This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion).", s.script.Window, r.Tokens+replyTokens, r.Tokens, replyTokens)
		p.code = "context_length_exceeded"
		return p
	case r.Tokens > s.script.Window:
		return bad("", "prompt is too long: %d tokens > %d maximum", r.Tokens, s.script.Window)
	}
	return bad("", "input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again: the context window is exceeded", r.Tokens, replyTokens, s.script.Window)
}

// nextTurn returns the turn for a request. s.mu is held.
func (s *Server) nextTurn(r *Request) (*Turn, *problem) {
	if s.script.Play != nil {
		if turn := s.script.Play(r); turn != nil {
			return turn, nil
		}
	}
	why := ""
	if s.script.Coding != nil {
		turn, err := s.script.Coding.turn(r)
		if err == nil {
			return turn, nil
		}
		why = "; " + err.Error()
	}
	if s.script.Chat != nil {
		turn, err := s.script.Chat.turn(r)
		if err == nil {
			return turn, nil
		}
		why += "; " + err.Error()
	}
	for i := range s.script.Turns {
		turn := &s.script.Turns[i]
		if (turn.Always || !s.used[i]) && turn.When.match(r) {
			s.used[i], r.Turn = true, i
			return turn, nil
		}
	}
	return nil, &problem{status: http.StatusTeapot, kind: "script_error", message: fmt.Sprintf("the script has no turn for request %d, which ends with %.300q%s", len(s.requests)+1, r.last(), why)}
}

// fail sends an error in the provider's form and returns its status.
func (s *Server) fail(w http.ResponseWriter, provider string, p *problem) int {
	status, body := openaiError(p)
	if provider == "anthropic" {
		status, body = anthropicError(p)
	}
	writeJSON(w, status, body)
	return status
}

// answerOf returns the answer that a turn gives to a request.
func (s *Server) answerOf(r *Request, turn *Turn) *answer {
	a := &answer{text: turn.Text, stop: turn.Stop, usage: Usage{Input: r.Tokens, Cached: r.Cached}}
	calls := turn.Calls
	switch {
	case len(turn.JSON) > 0 && r.Provider == "anthropic" && r.Format != "":
		calls = append(calls, Call{Name: r.Format, Arguments: turn.JSON})
	case len(turn.JSON) > 0:
		a.text = compact(turn.JSON)
	}
	a.usage.Output = Tokens(a.text)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range calls {
		s.calls++
		call := answerCall{id: fmt.Sprintf("call_%d", s.calls), name: c.Name, arguments: c.Raw}
		if name := r.Tool(c.Name); name != "" {
			call.name = name
		}
		if call.arguments == "" {
			call.arguments = "{}"
			if len(c.Arguments) > 0 {
				call.arguments = compact(c.Arguments)
			}
		}
		a.calls = append(a.calls, call)
		a.usage.Output += Tokens(call.name + call.arguments)
	}
	if turn.Usage != nil {
		a.usage = *turn.Usage
	}
	return a
}

// event is a server-sent event. A string as data is sent unchanged, anything else as JSON.
type event struct {
	kind string
	data any
}

// send sends an answer. It returns false if the client closed the connection before the answer ended.
func (s *Server) send(ctx context.Context, w http.ResponseWriter, r *Request, turn *Turn) bool {
	if !sleep(ctx, turn.Delay) {
		return false
	}
	a := s.answerOf(r, turn)
	events, whole := openaiEvents("scripted", a)
	if r.Provider == "anthropic" {
		events, whole = anthropicEvents("scripted", a, min(r.written(), a.usage.Input-a.usage.Cached))
	}
	if !r.Stream {
		writeJSON(w, http.StatusOK, whole)
		return true
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i, e := range events {
		if turn.Cut > 0 && i == turn.Cut {
			return true
		}
		if i > 0 && !sleep(ctx, turn.Pause) {
			return false
		}
		data, plain := e.data.(string)
		if !plain {
			raw, err := json.Marshal(e.data)
			if err != nil {
				panic(err) // impossible: streamed events hold only texts and numbers
			}
			data = string(raw)
		}
		if e.kind != "" {
			_, _ = fmt.Fprintf(w, "event: %s\n", e.kind)
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil || http.NewResponseController(w).Flush() != nil {
			return false
		}
	}
	return true
}

// sleep waits for d, and returns false if ctx ends first.
func sleep(ctx context.Context, d Seconds) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(time.Duration(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pieces splits a text like the tokens of a stream: a few runes each.
func pieces(text string) []string {
	const size = 8
	var out []string
	for runes := []rune(text); len(runes) > 0; {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
