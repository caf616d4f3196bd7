package mcptest

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
)

// NameSchema is the schema of form's question.
const NameSchema = `{"type":"object","properties":{"name":{"type":"string","minLength":2}},"required":["name"]}`

// askingTools are tools that ask the client.
var askingTools = []tool{
	{"form", "Asks for a name, and tells the answer.", "", func(r *request) { r.text(r.ask(forName("name", "Your name?"))) }},
	{"form2", "Asks twice, one after the other.", "", func(r *request) {
		first := r.ask(forName("name", "First name?"))
		r.text(first + " " + r.ask(forName("name", "Last name?")))
	}},
	{"both", "Asks twice at once.", "", func(r *request) { r.text(r.ask(forName("a", "First name?"), forName("b", "Last name?"))) }},
	{"page", "Asks the user to open a page; reports it complete if n is 1.", "", (*request).page},
	{"badpage", "Asks the user to open a page that should not be opened.", "", func(r *request) {
		r.text(r.elicit(`{"mode":"url","elicitationId":"e0","url":"http://evil.example/","message":"Open it"}`))
	}},
	{"pagefirst", "Refuses until a page was opened; reports it complete if n is 1.", "", (*request).pageFirst},
	{"many", "Asks n times at once, and counts refusals.", "", (*request).many},
	{"huge", "Asks with a schema or a state of n bytes.", "", func(r *request) {
		if filler := strings.Repeat("x", r.arguments.N); r.modern() {
			r.endWithQuestions(filler, forName("name", "Your name?"))
		} else {
			r.text(r.elicit(form("?", `{"type":"object","description":"`+filler+`"}`)))
		}
	}},
	{"nested", "Asks for an object within the answer.", "", func(r *request) {
		r.text(r.elicit(form("?", `{"type":"object","properties":{"a":{"type":"object"}}}`)))
	}},
	{"withdraw", "Asks, takes the question back when it is released, and asks something else.", "", (*request).withdraw},
	{"askcrash", "Asks, and ends the process when the answer comes.", "", func(r *request) {
		r.elicit(form("Crash?", NameSchema))
		r.exit()
	}},
	{"askanyway", "Asks, and ends without waiting for the answer.", "", func(r *request) {
		r.send("elicitation/create", form("Never mind?", NameSchema), r.callMeta())
		r.text("done")
	}},
	{"needroots", "Wants roots in the middle of a call.", "", func(r *request) { r.text(r.ask(question{"roots", "roots/list", "{}"})) }},
	{"sample", "Asks a model n times, and returns its answers.", "", func(r *request) {
		var answers []string
		for range max(1, r.arguments.N) {
			answers = append(answers, r.ask(r.forModel()))
		}
		r.text(strings.Join(answers, " "))
	}},
	{"sampleform", "Asks a model and a person.", "", func(r *request) { r.text(r.ask(r.forModel(), forName("name", "Your name?"))) }},
	{"needmodel", "Wants a model in the middle of a call.", "", func(r *request) {
		r.text(r.ask(question{"m", "sampling/createMessage", `{"messages":[],"maxTokens":1}`}))
	}},
	{"shed", "Defers the call n times.", "", func(r *request) {
		var n int
		_, _ = fmt.Sscan(r.Params.RequestState, &n)
		if n == r.arguments.N {
			r.text("at last")
			return
		}
		r.reply(fmt.Sprintf(`{"resultType":"input_required","requestState":"%d"}`, n+1))
	}},
}

// question is a request to the client. Its key names it among the questions of a round.
type question struct{ key, method, params string }

func forName(key, message string) question {
	return question{key, "elicitation/create", `{"mode":"form",` + form(message, NameSchema)[1:]}
}

// forModel returns a sampling request with the call's argument `params`, or a default.
func (r *request) forModel() question {
	params := string(r.arguments.Params)
	if params == "" {
		params = `{"messages":[{"role":"user","content":{"type":"text","text":"Capital of France?"}}],"maxTokens":100}`
	}
	return question{"m", "sampling/createMessage", params}
}

// form returns the parameters of an elicitation, without a mode.
func form(message, schema string) string {
	return fmt.Sprintf(`{"message":%q,"requestedSchema":%s}`, message, schema)
}

// ask asks questions at once, and returns the answers in the same order. Up to 2025-11-25 each question is a request to the client. Since
// 2026-07-28 the questions end the call, and the client calls again with the answers: the tool runs from its start, and finds the answers
// of earlier rounds in the call's state.
func (r *request) ask(questions ...question) string {
	var answers []string
	if !r.modern() {
		var sent []chan message
		for _, q := range questions {
			_, ch := r.send(q.method, q.params, r.callMeta())
			sent = append(sent, ch)
		}
		for _, ch := range sent {
			answers = append(answers, (<-ch).outcome())
		}
		return strings.Join(answers, " ")
	}
	r.round++
	if r.round > len(r.rounds) {
		for _, q := range questions {
			if answer := r.Params.InputResponses[q.key]; answer != nil {
				answers = append(answers, string(answer))
			}
		}
		stateless := len(questions) > 1 && r.round == 1 // the state is optional
		if len(answers) < len(questions) || r.Params.RequestState == "" && !stateless {
			state, err := json.Marshal(append([][]string{}, r.rounds...))
			if err != nil {
				panic(err)
			}
			if stateless {
				state = nil
			}
			r.endWithQuestions(string(state), questions...)
			runtime.Goexit() // of this call
		}
		r.rounds, r.Params.InputResponses = append(r.rounds, answers), nil
	}
	return strings.Join(r.rounds[r.round-1], " ")
}

// endWithQuestions ends a call with questions.
func (r *request) endWithQuestions(state string, questions ...question) {
	requests := make(map[string]any, len(questions))
	for _, q := range questions {
		requests[q.key] = map[string]any{"method": q.method, "params": json.RawMessage(q.params)}
	}
	result := map[string]any{"resultType": "input_required", "inputRequests": requests}
	if state != "" {
		result["requestState"] = state
	}
	b, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	r.reply(string(b))
}

// callMeta returns the `_meta` that names the call in a request to the client. It is empty if the argument n is negative.
func (r *request) callMeta() string {
	if len(r.token) == 0 || r.arguments.N < 0 {
		return ""
	}
	return `"progressToken":` + string(r.token)
}

// send sends the client a request, and returns its id and a channel that receives the response.
func (s *server) send(method, params, meta string) (string, chan message) {
	ch := make(chan message, 1)
	s.mu.Lock()
	s.asked++
	id := fmt.Sprintf("ask-%d", s.asked)
	s.waiting[id] = ch
	s.mu.Unlock()
	if meta != "" {
		params = `{"_meta":{` + meta + `},` + params[1:]
	}
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params))
	return id, ch
}

// deliver hands a response of the client to the call that asked.
func (s *server) deliver(m message) {
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

// elicit sends an elicitation as up to 2025-11-25, waits for the answer and returns it as text.
func (r *request) elicit(params string) string {
	_, ch := r.send("elicitation/create", params, r.callMeta())
	return (<-ch).outcome()
}

func (r *request) page() {
	_, ch := r.send("elicitation/create", `{"mode":"url","elicitationId":"e1","url":"https://pay.example/1","message":"Pay"}`, r.callMeta())
	if r.arguments.N == 1 {
		r.notify("notifications/elicitation/complete", `{"elicitationId":"e1"}`)
	}
	r.text((<-ch).outcome())
}

func (r *request) pageFirst() {
	if r.count() > 1 {
		r.text("opened")
		return
	}
	r.respond(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"log in first","data":{"elicitations":[`+
		`{"mode":"url","elicitationId":"e2","url":"https://login.example/2","message":"Log in"}]}}}`, r.ID))
	if r.arguments.N == 1 {
		r.notify("notifications/elicitation/complete", `{"elicitationId":"e2"}`)
	}
}

func (r *request) many() {
	refused := 0
	var all []chan message
	for range r.arguments.N {
		_, ch := r.send("elicitation/create", form("Again?", NameSchema), r.callMeta())
		all = append(all, ch)
	}
	for _, ch := range all {
		if m := <-ch; len(m.Error) > 0 {
			refused++
		}
	}
	r.text(fmt.Sprintf("%d refused", refused))
}

func (r *request) withdraw() {
	released := r.onRelease()
	id, ch := r.send("elicitation/create", form("Never mind?", NameSchema), r.callMeta())
	<-released
	r.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%q}`, id))
	go func() {
		r.elicit(form("Then this?", NameSchema)) // an answer to the first question would come before this one's
		select {
		case m := <-ch:
			r.text("answered: " + m.outcome())
		default:
			r.text("withdrawn")
		}
	}()
}
