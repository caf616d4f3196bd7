package mcpfile

import (
	"encoding/json"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// sampling reads whether, and within which bounds, a server may have models asked.
func (f *fields) sampling(s *mcppoolv1.McpServer) error {
	const what = `true, false, or an object such as {"model": "fast", "maxTokens": 1024, "maxRequests": 10}`
	var raw json.RawMessage
	if err := f.take(member{"sampling", what, &raw}); err != nil || len(raw) == 0 || string(raw) == "false" {
		return err
	}
	s.Sampling = &mcppoolv1.SamplingPolicy{}
	if string(raw) == "true" {
		return nil
	}
	var bounds struct {
		Model       string `json:"model"`
		MaxTokens   uint32 `json:"maxTokens"`
		MaxRequests uint32 `json:"maxRequests"`
	}
	f.left["sampling"] = raw
	if err := f.take(member{"sampling", what, &bounds}); err != nil {
		return err
	}
	s.Sampling.Model, s.Sampling.MaxTokens, s.Sampling.MaxRequests = bounds.Model, bounds.MaxTokens, bounds.MaxRequests
	return nil
}
