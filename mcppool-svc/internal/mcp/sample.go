package mcp

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// maxSample is how long a request for a model may be, in bytes. The planner checks counts and lengths of its parts.
const maxSample = 8 << 20

// Sample is a server's request for a model's answer during a call (sampling). includeContext is left out: what this pool knows of other
// servers is not for this one.
type Sample struct {
	System      string          `json:"systemPrompt"` // may be empty
	Messages    []SampleMessage `json:"messages"`
	MaxTokens   float64         `json:"maxTokens"`
	Temperature *float64        `json:"temperature"`
	Stop        []string        `json:"stopSequences"`
	Preferences struct {
		Hints []struct { // the best first
			Name string `json:"name"` // or a part of one
		} `json:"hints"`
	} `json:"modelPreferences"`
}

// SampleMessage is a turn of the conversation.
type SampleMessage struct {
	Role  string      `json:"role"` // user or assistant
	Parts SampleParts `json:"content"`
}

// SampleParts are the content of a message.
type SampleParts []SamplePart

// SamplePart is text, or where it has bytes a picture or sound.
type SamplePart struct {
	Kind string `json:"type"` // text, image or audio
	Text string `json:"text"`
	MIME string `json:"mimeType"`
	Data []byte `json:"data"`
}

// UnmarshalJSON implements json.Unmarshaler: a message has one part, or since 2025-11-25 a list of them.
func (p *SampleParts) UnmarshalJSON(raw []byte) error {
	if strictjson.Kind(raw) == "array" {
		return json.Unmarshal(raw, (*[]SamplePart)(p))
	}
	*p = make(SampleParts, 1)
	return json.Unmarshal(raw, &(*p)[0])
}

// Sampled is the model's answer.
type Sampled struct {
	Text  string
	Model string // the provider's name of it
	Stop  string // as MCP has it: endTurn, maxTokens, stopSequence
}

// Result is the answer as MCP has it.
func (s Sampled) Result() json.RawMessage {
	raw, _ := json.Marshal(map[string]any{ // text always marshals
		"role": "assistant", "content": map[string]string{"type": "text", "text": s.Text}, "model": s.Model, "stopReason": s.Stop,
	})
	return raw
}

// Codes of JSON-RPC errors that requests for models are answered with: MCP says -1 where the client's side refuses.
const (
	SampleRefused = -1
	SampleInvalid = mcp.INVALID_PARAMS
	SampleFailed  = mcp.INTERNAL_ERROR
)

// readSample reads the parameters of sampling/createMessage. The error is for the server.
func readSample(params json.RawMessage) (*Sample, error) {
	for _, key := range []string{"tools", "toolChoice"} {
		if value, _ := strictjson.Member(params, key); !strictjson.Absent(value) {
			return nil, Refusef(SampleInvalid, "%s in sampling is not offered here (the capability sampling.tools is not announced); ask without", key)
		}
	}
	if len(params) > maxSample {
		return nil, Refusef(SampleInvalid, "the request has more than %d MiB", maxSample>>20)
	}
	var s Sample
	if err := json.Unmarshal(params, &s); err != nil {
		return nil, Refusef(SampleInvalid, "the parameters are not those of sampling/createMessage")
	}
	if s.MaxTokens < 0 {
		return nil, Refusef(SampleInvalid, "maxTokens must be at least 1")
	}
	for _, m := range s.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return nil, Refusef(SampleInvalid, "the role %.40q of a message is neither user nor assistant", m.Role)
		}
		for _, p := range m.Parts {
			if err := p.check(); err != nil {
				return nil, err
			}
		}
	}
	return &s, nil
}

func (p SamplePart) check() error {
	switch p.Kind {
	case "text":
		return nil
	case "image", "audio":
		if len(p.Data) == 0 || p.MIME == "" {
			return Refusef(SampleInvalid, "an %s without data, or without a mimeType", p.Kind)
		}
		return nil
	}
	return Refusef(SampleInvalid, "content of the type %.40q is not taken in sampling; send text, image or audio", p.Kind)
}
