package mcptest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// NameSchema is the schema of form's question.
const NameSchema = `{"type":"object","properties":{"name":{"type":"string","minLength":2}},"required":["name"]}`

// askingDefinitions are the definitions of the tools that ask the client.
var askingDefinitions = []string{
	`{"name":"form","description":"Asks for a name, and tells the answer.","inputSchema":{"type":"object"}}`,
	`{"name":"form2","description":"Asks twice, one after the other.","inputSchema":{"type":"object"}}`,
	`{"name":"both","description":"Asks twice at once.","inputSchema":{"type":"object"}}`,
	`{"name":"page","description":"Wants a page opened; says that it was where n is 1.","inputSchema":{"type":"object"}}`,
	`{"name":"badpage","description":"Wants a page opened that should not be opened.","inputSchema":{"type":"object"}}`,
	`{"name":"pagefirst","description":"Refuses until a page was opened; says that it was where n is 1.","inputSchema":{"type":"object"}}`,
	`{"name":"many","description":"Asks n times at once, and counts refusals.","inputSchema":{"type":"object"}}`,
	`{"name":"huge","description":"Asks with a schema of n bytes.","inputSchema":{"type":"object"}}`,
	`{"name":"nested","description":"Asks for what is no plain value.","inputSchema":{"type":"object"}}`,
	`{"name":"withdraw","description":"Asks, takes the question back when it is released, and asks something else.","inputSchema":{"type":"object"}}`,
	`{"name":"askcrash","description":"Asks, and ends the process when the answer comes.","inputSchema":{"type":"object"}}`,
	`{"name":"askanyway","description":"Asks, and ends without waiting for the answer.","inputSchema":{"type":"object"}}`,
	`{"name":"needroots","description":"Wants roots in the middle of a call.","inputSchema":{"type":"object"}}`,
	`{"name":"sample","description":"Has a model asked n times, and tells what it said.","inputSchema":{"type":"object"}}`,
	`{"name":"sampleform","description":"Has a model and a person asked.","inputSchema":{"type":"object"}}`,
	`{"name":"needmodel","description":"Wants a model in the middle of a call.","inputSchema":{"type":"object"}}`,
	`{"name":"shed","description":"Puts the call off n times.","inputSchema":{"type":"object"}}`,
}

// asking are the functions of these tools up to 2025-11-25; rounds has those since 2026-07-28.
var asking = map[string]func(*server, request){
	"form":      func(s *server, r request) { s.text(r.message, s.question(r, form("Your name?", NameSchema))) },
	"form2":     (*server).form2,
	"both":      (*server).both,
	"page":      (*server).page,
	"pagefirst": (*server).pageFirst,
	"many":      (*server).many,
	"withdraw":  (*server).withdraw,
	"sample":    (*server).sample,
	"badpage": func(s *server, r request) {
		s.text(r.message, s.question(r, `{"mode":"url","elicitationId":"e0","url":"http://evil.example/","message":"Open it"}`))
	},
	"huge": func(s *server, r request) {
		s.text(r.message, s.question(r, form("?", `{"type":"object","description":"`+strings.Repeat("x", r.n)+`"}`)))
	},
	"nested": func(s *server, r request) {
		s.text(r.message, s.question(r, form("?", `{"type":"object","properties":{"a":{"type":"object"}}}`)))
	},
	"askcrash": func(s *server, r request) {
		s.question(r, form("Crash?", NameSchema))
		s.exit(r)
	},
	"askanyway": func(s *server, r request) {
		s.send(r, form("Never mind?", NameSchema))
		s.text(r.message, "done")
	},
}

func form(message, schema string) string {
	return fmt.Sprintf(`{"message":%q,"requestedSchema":%s}`, message, schema)
}

// send asks a question, and returns its id and a channel that receives the answer.
func (s *server) send(r request, params string) (string, chan message) {
	return s.request(r, "elicitation/create", params)
}

// request sends the client a request, and returns its id and a channel that receives the response. It names the call unless r.n is negative.
func (s *server) request(r request, method, params string) (string, chan message) {
	ch := make(chan message, 1)
	s.mu.Lock()
	s.asked++
	id := fmt.Sprintf("ask-%d", s.asked)
	s.waiting[id] = ch
	s.mu.Unlock()
	meta := fmt.Sprintf(`"_meta":{"progressToken":%s},`, r.token)
	if len(r.token) == 0 {
		meta = ""
	}
	if r.n < 0 {
		meta = ""
	}
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{%s%s}`, id, method, meta, params[1:]))
	return id, ch
}

// question asks a question, waits for the answer and returns it as text.
func (s *server) question(r request, params string) string {
	_, ch := s.send(r, params)
	return resultOrError(<-ch)
}

// resultOrError returns the text of a response.
func resultOrError(m message) string {
	if len(m.Error) > 0 {
		return "refused: " + string(m.Error)
	}
	return string(m.Result)
}

// answered hands a response of the client to the call that asked.
func (s *server) answered(m message) {
	var id string
	_ = json.Unmarshal(m.ID, &id)
	s.mu.Lock()
	ch := s.waiting[id]
	delete(s.waiting, id)
	s.mu.Unlock()
	if ch != nil {
		ch <- m
	}
}

func (s *server) form2(r request) {
	first := s.question(r, form("First name?", NameSchema))
	s.text(r.message, first+" "+s.question(r, form("Last name?", NameSchema)))
}

func (s *server) both(r request) {
	_, first := s.send(r, form("First name?", NameSchema))
	_, last := s.send(r, form("Last name?", NameSchema))
	s.text(r.message, resultOrError(<-first)+" "+resultOrError(<-last))
}

func (s *server) page(r request) {
	_, ch := s.send(r, `{"mode":"url","elicitationId":"e1","url":"https://pay.example/1","message":"Pay"}`)
	if r.n == 1 {
		s.notify("notifications/elicitation/complete", `{"elicitationId":"e1"}`)
	}
	s.text(r.message, resultOrError(<-ch))
}

func (s *server) pageFirst(r request) {
	if s.count() > 1 {
		s.text(r.message, "opened")
		return
	}
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"log in first","data":{"elicitations":[`+
		`{"mode":"url","elicitationId":"e2","url":"https://login.example/2","message":"Log in"}]}}}`, r.ID))
	if r.n == 1 {
		s.notify("notifications/elicitation/complete", `{"elicitationId":"e2"}`)
	}
}

func (s *server) many(r request) {
	refused := 0
	var all []chan message
	for range r.n {
		_, ch := s.send(r, form("Again?", NameSchema))
		all = append(all, ch)
	}
	for _, ch := range all {
		if m := <-ch; len(m.Error) > 0 {
			refused++
		}
	}
	s.text(r.message, fmt.Sprintf("%d refused", refused))
}

func (s *server) withdraw(r request) {
	released := make(chan struct{})
	s.mu.Lock()
	s.held = append(s.held, held{r.token, released})
	s.mu.Unlock()
	id, ch := s.send(r, form("Never mind?", NameSchema))
	<-released
	s.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%q}`, id))
	go func() {
		s.question(r, form("Then this?", NameSchema)) // an answer to the first question would come before this one's
		select {
		case m := <-ch:
			s.text(r.message, "answered: "+resultOrError(m))
		default:
			s.text(r.message, "withdrawn")
		}
	}()
}
