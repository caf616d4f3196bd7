package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"pawl.dev/services/strictjson"
)

const (
	// maxSchema and maxURL bound what a question may carry; a longer message is cut.
	maxSchema = 64 << 10
	maxURL    = 8 << 10
	// maxState is the longest that a continuation may be: what the contract lets callers send back.
	maxState = 1 << 20
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
	// Answers are those of models and of the pool itself, by the server's names of its requests: models are not asked again.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Round is how many times the server has asked by now.
	Round int `json:"round"`
}

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

// DecodeContinuation reads what Encode wrote.
func DecodeContinuation(state string) (*Continuation, error) {
	var c Continuation
	if err := json.Unmarshal([]byte(state), &c); err != nil || c.Round < 1 {
		return nil, errors.New("it is not what a question of this pool said")
	}
	return &c, nil
}

// readQuestion reads the parameters of elicitation/create. The error is for the server.
func readQuestion(raw json.RawMessage) (*Question, error) {
	params, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	q := &Question{Message: cut(stringOf(params["message"]))}
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
		if err := safeURL(q.URL); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("the mode %.40q is not known", mode)
	}
	return q, nil
}

// safeURL refuses what a person had better not open: a server chose it.
func safeURL(text string) error {
	if len(text) > maxURL {
		return fmt.Errorf("url has more than %d KiB", maxURL>>10)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return errors.New("url is not an address that can be opened")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if isLoopback := u.Hostname() == "localhost" || err == nil && addr.IsLoopback(); u.Scheme == "https" || u.Scheme == "http" && isLoopback {
		return nil
	}
	return errors.New("url must be https")
}
