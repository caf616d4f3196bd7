package mcptest

import (
	"encoding/json"
	"strings"
)

// sampling returns the parameters of a sampling request: the call's argument `params`, or a default.
func (r request) sampling() string {
	var arguments struct {
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(r.arguments, &arguments) == nil && len(arguments.Params) > 0 {
		return string(arguments.Params)
	}
	return `{"messages":[{"role":"user","content":{"type":"text","text":"Capital of France?"}}],"maxTokens":100}`
}

// sample makes n sampling requests, one after the other. If n is negative, it makes one, which does not name the call.
func (s *server) sample(r request) {
	var answers []string
	for range max(1, r.n) {
		_, ch := s.request(r, "sampling/createMessage", r.sampling())
		answers = append(answers, resultOrError(<-ch))
	}
	s.text(r.message, strings.Join(answers, " "))
}
