package mcptest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// rounds are the tools that ask since 2026-07-28: the result of a call holds the questions, and the next call brings the answers. The server
// keeps no state in between.
var rounds = map[string]func(*server, request){
	"form": func(s *server, r request) {
		if answer := r.responses["name"]; answer != nil && r.state == "s1" {
			s.text(r.message, string(answer))
			return
		}
		s.want(r, "s1", map[string]string{"name": elicitation("Your name?")})
	},
	"form2": func(s *server, r request) {
		switch first, again := strings.CutPrefix(r.state, "2:"); {
		case again:
			s.text(r.message, first+" "+string(r.responses["name"]))
		case r.state == "1":
			s.want(r, "2:"+string(r.responses["name"]), map[string]string{"name": elicitation("Last name?")})
		default:
			s.want(r, "1", map[string]string{"name": elicitation("First name?")})
		}
	},
	"both": func(s *server, r request) {
		if len(r.responses) == 2 {
			s.text(r.message, string(r.responses["a"])+" "+string(r.responses["b"]))
			return
		}
		s.want(r, "", map[string]string{"a": elicitation("First name?"), "b": elicitation("Last name?")})
	},
	"needroots": func(s *server, r request) {
		if answer := r.responses["roots"]; answer != nil {
			s.text(r.message, string(answer))
			return
		}
		s.want(r, "s", map[string]string{"roots": `{"method":"roots/list"}`})
	},
	"needmodel": func(s *server, r request) {
		s.want(r, "s", map[string]string{"m": `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`})
	},
	"sample": func(s *server, r request) {
		if answer := r.responses["m"]; answer != nil {
			s.text(r.message, string(answer))
			return
		}
		s.want(r, "s", map[string]string{"m": `{"method":"sampling/createMessage","params":` + r.sampling() + `}`})
	},
	"sampleform": func(s *server, r request) {
		if answer := r.responses["m"]; answer != nil {
			s.text(r.message, string(answer)+" "+string(r.responses["name"]))
			return
		}
		s.want(r, "s", map[string]string{"m": `{"method":"sampling/createMessage","params":` + r.sampling() + `}`, "name": elicitation("Your name?")})
	},
	"shed": func(s *server, r request) {
		var n int
		_, _ = fmt.Sscan(r.state, &n)
		if n == r.n {
			s.text(r.message, "at last")
			return
		}
		s.reply(r.message, fmt.Sprintf(`{"resultType":"input_required","requestState":"%d"}`, n+1))
	},
	"huge": func(s *server, r request) {
		s.want(r, strings.Repeat("x", r.n), map[string]string{"name": elicitation("Your name?")})
	},
}

func elicitation(message string) string {
	return `{"method":"elicitation/create","params":{"mode":"form","message":"` + message + `","requestedSchema":` + NameSchema + `}}`
}

// want ends a call with questions.
func (s *server) want(r request, state string, requests map[string]string) {
	raw := make(map[string]json.RawMessage, len(requests))
	for name, text := range requests {
		raw[name] = json.RawMessage(text)
	}
	result := map[string]any{"resultType": "input_required", "inputRequests": raw}
	if state != "" {
		result["requestState"] = state
	}
	b, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	s.reply(r.message, string(b))
}
