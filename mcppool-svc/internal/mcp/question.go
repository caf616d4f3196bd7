package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/loopback"
	"pawl.dev/services/strictjson"
)

const (
	// maxSchema and maxURL are the longest schema and URL of a question, in bytes.
	maxSchema = 64 << 10
	maxURL    = 8 << 10
	// maxState is the longest State of a question that the API accepts from callers.
	maxState = 1 << 20
)

// Question is a server's request for a person's input during a call (elicitation).
type Question struct {
	ID      string // unique within the call
	Message string
	Schema  string // JSON Schema of the answer; empty if URL is set
	URL     string // the page to open in a browser; empty if Schema is set
	// State is an encoded Continuation: with it and the answer the call continues over any connection. It is empty if only the current
	// connection can continue the call.
	State  string
	Expire time.Time // when the question is no longer waited for
}

// Action is the person's decision about a question.
type Action string

// The actions, as MCP spells them.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel"
)

// Answer is the answer to a question. It has content only if a form was accepted.
type Answer struct {
	Action  Action
	Content json.RawMessage
}

// Result returns the answer in MCP's form.
func (a Answer) Result() json.RawMessage {
	fields := map[string]any{"action": a.Action}
	if len(a.Content) > 0 {
		fields["content"] = a.Content
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return json.RawMessage(`{"action":"` + string(Cancel) + `"}`) // the content was checked to be JSON
	}
	return raw
}

// Continuation holds the state with which a call that ended with questions continues. Callers keep it as the State of a Question.
type Continuation struct {
	// Server is the server's requestState, which is sent back unread; nil if none.
	Server *string `json:"server,omitempty"`
	// Answers are the answers of models and of the pool itself, by the server's names of its requests, so that models are not asked again.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Round is how many requests of the call have ended without a result.
	Round int `json:"round"`
}

// DecodeContinuation reads a Question's State.
func DecodeContinuation(state string) (*Continuation, error) {
	var c Continuation
	if err := json.Unmarshal([]byte(state), &c); err != nil || c.Round < 1 {
		return nil, errors.New("it is not that of a question; send the request_state of the question unchanged")
	}
	return &c, nil
}

// readQuestion reads the parameters of elicitation/create. The error is for the server.
func readQuestion(raw json.RawMessage) (*Question, error) {
	params, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	q := &Question{Message: Cut(stringOf(params["message"]))}
	switch mode := stringOf(params["mode"]); mode {
	case "", "form":
		schema := params["requestedSchema"]
		switch {
		case len(schema) > maxSchema:
			return nil, fmt.Errorf("requestedSchema has more than %d KiB", maxSchema>>10)
		case strictjson.Absent(schema):
			return nil, errors.New("requestedSchema is missing")
		}
		q.Schema = string(schema)
	case "url":
		q.URL = stringOf(params["url"])
		if err := checkURL(q.URL); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("the mode %.40q is not supported", mode)
	}
	return q, nil
}

// checkURL returns an error for an address that a person should not open at the request of a server.
func checkURL(text string) error {
	if len(text) > maxURL {
		return fmt.Errorf("url has more than %d KiB", maxURL>>10)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return errors.New("url is not an address that can be opened")
	}
	if u.Scheme == "https" || u.Scheme == "http" && loopback.Is(u.Host) {
		return nil
	}
	return errors.New("url must be https")
}

// maxSample is the longest request for a model, in bytes. The planner checks counts and lengths of its parts.
const maxSample = 8 << 20

// Sample is a server's request for a model's answer during a call (sampling). includeContext is ignored: the server gets nothing that other
// servers sent.
type Sample struct {
	System      string          `json:"systemPrompt"` // may be empty
	Messages    []SampleMessage `json:"messages"`
	MaxTokens   float64         `json:"maxTokens"`
	Temperature *float64        `json:"temperature"`
	Stop        []string        `json:"stopSequences"`
	Preferences struct {
		Hints []struct { // the best one first
			Name string `json:"name"` // of a model, or a part of it
		} `json:"hints"`
	} `json:"modelPreferences"`
}

// SampleMessage is one message of the conversation.
type SampleMessage struct {
	Role  string      `json:"role"` // user or assistant
	Parts SampleParts `json:"content"`
}

// SampleParts are the content of a message.
type SampleParts []SamplePart

// SamplePart is text, or a picture or sound if it has bytes.
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
	Model string // the provider's name of the model
	Stop  string // MCP's stopReason: endTurn, maxTokens, stopSequence
}

// Result returns the answer in MCP's form.
func (s Sampled) Result() json.RawMessage {
	raw, _ := json.Marshal(map[string]any{ // text always marshals
		"role": "assistant", "content": map[string]string{"type": "text", "text": s.Text}, "model": s.Model, "stopReason": s.Stop,
	})
	return raw
}

// JSON-RPC error codes in answer to requests for models. MCP requires -1 if the user or the client refuses.
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
			return Refusef(SampleInvalid, "content of the type %s has no data or no mimeType", p.Kind)
		}
		return nil
	}
	return Refusef(SampleInvalid, "content of the type %.40q is not supported in sampling; send text, image or audio", p.Kind)
}
