package registry

import (
	"encoding/json"
)

// sampling reads whether, and within which bounds, a server may have models asked.
func (f *fields) sampling(s *Server) (bool, error) {
	const what = `true, false, or an object such as {"model": "fast", "maxTokens": 1024, "maxRequests": 10}`
	var raw json.RawMessage
	if ok, err := take(f, "sampling", what, &raw); !ok || err != nil {
		return false, err
	}
	switch string(raw) {
	case "true":
		s.Sampling = &Sampling{}
		return true, nil
	case "false":
		return true, nil
	}
	var bounds struct {
		Model       string `json:"model"`
		MaxTokens   int    `json:"maxTokens"`
		MaxRequests int    `json:"maxRequests"`
	}
	f.left["sampling"] = raw
	if _, err := take(f, "sampling", what, &bounds); err != nil {
		return false, err
	}
	s.Sampling = &Sampling{Model: bounds.Model, MaxTokens: bounds.MaxTokens, MaxRequests: bounds.MaxRequests}
	return true, nil
}
