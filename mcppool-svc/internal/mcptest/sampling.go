package mcptest

import (
	"encoding/json"
	"strings"
)

// sampling are the parameters of a request for a model: those of the call's argument `params`, or plain ones.
func (r request) sampling() string {
	var arguments struct {
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(r.arguments, &arguments) == nil && len(arguments.Params) > 0 {
		return string(arguments.Params)
	}
	return `{"messages":[{"role":"user","content":{"type":"text","text":"Capital of France?"}}],"maxTokens":100}`
}

// sample has a model asked n times, one after the other; without a word for which call where n is negative.
func (s *server) sample(r request) {
	var said []string
	for range max(1, r.n) {
		_, ch := s.request(r, "sampling/createMessage", r.sampling())
		said = append(said, told(<-ch))
	}
	s.text(r.message, strings.Join(said, " "))
}
