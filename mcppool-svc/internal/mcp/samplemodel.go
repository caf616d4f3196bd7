package mcp

import (
	"encoding/json"
	"fmt"
)

// Sample is a server's request for a model's answer during a call (sampling).
type Sample struct {
	System      string // may be empty
	Messages    []SampleMessage
	MaxTokens   int
	Temperature *float64
	Stop        []string
	Hints       []string // names, or parts of names, of models, the best first
}

// SampleMessage is a turn of the conversation.
type SampleMessage struct {
	Assistant bool // else the user says it
	Parts     []SamplePart
}

// SamplePart is text, or where it has bytes a picture or sound.
type SamplePart struct {
	Text string
	Kind string // text, image or audio
	MIME string
	Data []byte
}

// Sampled is the model's answer.
type Sampled struct {
	Text  string
	Model string // the provider's name of it
	Stop  string // as MCP has it: endTurn, maxTokens, stopSequence
}

// Result is the answer as MCP has it.
func (s Sampled) Result() (json.RawMessage, error) {
	raw, err := json.Marshal(map[string]any{
		"role": "assistant", "content": map[string]string{"type": "text", "text": s.Text}, "model": s.Model, "stopReason": s.Stop,
	})
	return raw, err
}

// Codes of JSON-RPC errors that requests for models are answered with: MCP says -1 where the client's side refuses.
const (
	SampleRefused = -1
	SampleInvalid = -32602
	SampleFailed  = -32603
)

// SampleError is the error of a request for a model. It is sent to the server.
type SampleError struct {
	Code    int
	Message string
	Err     error // the cause; may be nil
}

func (e *SampleError) Error() string { return e.Message }

func (e *SampleError) Unwrap() error { return e.Err }

// SampleErrorf makes one.
func SampleErrorf(code int, format string, args ...any) *SampleError {
	return &SampleError{Code: code, Message: fmt.Sprintf(format, args...)}
}
