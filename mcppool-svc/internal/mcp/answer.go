package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Question is something that a server asks for in the middle of a call (elicitation).
type Question struct {
	ID      string // unique within the call
	Message string
	Schema  string // JSON Schema of the answer; empty where there is a URL
	URL     string // what to open in a browser; empty where there is a schema
	// State goes on with the call over any connection, together with the answer; empty where the question lives with this one.
	State  string
	Expire time.Time // when it is given up; set by the ledger
}

// Action is how the person reacted to a question.
type Action string

// The actions, as MCP spells them.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel"
)

// Answer is the answer to a question; it has content only where a form was accepted.
type Answer struct {
	Action  Action
	Content json.RawMessage
}

// Result is the answer as MCP has it.
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

// Continuation is what it takes to go on with a call that ended by asking. It travels through callers as a Question's State.
type Continuation struct {
	// Server is what the server wants back, unread; nil where it wants nothing.
	Server *string `json:"server,omitempty"`
	// Roots are the server's names of requests for roots, which the pool answers itself.
	Roots []string `json:"roots,omitempty"`
	// Models are the answers of models, by the server's names of its requests: models are not asked again.
	Models map[string]json.RawMessage `json:"models,omitempty"`
	// Round is how many times the server has asked by now.
	Round int `json:"round"`
}

// maxState is the longest that a continuation may be: what the contract lets callers send back.
const maxState = 1 << 20

// Encode writes the continuation. It fails if the server's state is too long.
func (c Continuation) Encode() (string, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	if len(raw) > maxState {
		return "", fmt.Errorf("its request state has more than %d KiB", maxState>>10)
	}
	return string(raw), nil
}

// errNoState refuses a state that is not of this pool.
var errNoState = errors.New("it is not what a question of this pool said")

// DecodeContinuation reads what Encode wrote.
func DecodeContinuation(state string) (*Continuation, error) {
	var c Continuation
	if err := json.Unmarshal([]byte(state), &c); err != nil || c.Round < 1 {
		return nil, errNoState
	}
	return &c, nil
}
