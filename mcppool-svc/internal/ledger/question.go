package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

const (
	// maxAsked is how often a server may ask in one call, and maxOpen how many questions may be open at once.
	maxAsked = 100
	maxOpen  = 10
)

// question is something that a call's server asks for. What is closed keeps no more than a digest.
type question struct {
	asked  mcp.Question
	check  func(mcp.Answer) error
	answer chan mcp.Answer   // buffered; nil once the question is closed
	given  [sha256.Size]byte // of the answer
	closed bool
}

// Ask opens a question to all who follow the call now or later. What check refuses is no answer. The channel gets the one that
// was given; Close the question in any case. The error says why the question cannot be asked.
func (c *Call) Ask(q mcp.Question, check func(mcp.Answer) error) (<-chan mcp.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := 0
	for _, other := range c.questions {
		if !other.closed {
			open++
		}
	}
	switch {
	case c.questions[q.ID] != nil:
		return nil, errTwice
	case len(c.questions) >= maxAsked, open >= maxOpen:
		return nil, errTooMany
	}
	if c.questions == nil {
		c.questions = make(map[string]*question)
	}
	own := &question{asked: q, check: check, answer: make(chan mcp.Answer, 1)}
	c.questions[q.ID] = own
	c.open = append(c.open, q.ID)
	for _, box := range c.followers {
		box.put(mcp.Notification{Question: &q})
	}
	return own.answer, nil
}

// Close ends a question, answered or not.
func (c *Call) Close(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.questions[id]; q != nil {
		c.shut(q)
	}
}

// shut closes a question. Called with mu held.
func (c *Call) shut(q *question) {
	for i, id := range c.open {
		if id == q.asked.ID {
			c.open = append(c.open[:i:i], c.open[i+1:]...)
			break
		}
	}
	q.closed, q.check, q.answer = true, nil, nil
	q.asked = mcp.Question{ID: q.asked.ID}
}

// Answer gives an answer to a question of a user's call. The same answer again is none, and no error.
func (l *Ledger) Answer(user, id, questionID string, a mcp.Answer) error {
	l.mu.Lock()
	c := l.calls[keyOf(user, id)]
	l.mu.Unlock()
	if c == nil {
		return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND,
			"no call %.100q of yours is known here; it may have ended, or run in another pool", id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q, digest := c.questions[questionID], digestOf(a)
	switch {
	case q == nil:
		return notOpen("the call %.100q has no question %.100q", id, questionID)
	case q.given == digest:
		return nil
	case q.given != [sha256.Size]byte{}:
		return notOpen("the question %.100q was answered already, and otherwise", questionID)
	case q.closed:
		return notOpen("the question %.100q is open no more: its call ended, the server took it back, or nobody answered in time", questionID)
	}
	if err := q.check(a); err != nil {
		return err
	}
	q.given = digest
	q.answer <- a
	c.shut(q)
	return nil
}

// digestOf is the same for the same answer, however its JSON is spaced.
func digestOf(a mcp.Answer) [sha256.Size]byte {
	var b bytes.Buffer
	b.WriteString(string(a.Action))
	b.WriteByte(0)
	if json.Compact(&b, a.Content) != nil {
		b.Write(a.Content)
	}
	return sha256.Sum256(b.Bytes())
}

// catchUp tells a follower that comes late what is still to be known. Called with mu held.
func (c *Call) catchUp(box *Mailbox) {
	if c.task != nil {
		box.put(mcp.Notification{Task: c.task})
	}
	for _, id := range c.open {
		asked := c.questions[id].asked
		box.put(mcp.Notification{Question: &asked})
	}
}

// questionError is why a server may not ask.
type questionError string

func (e questionError) Error() string { return string(e) }

const (
	errTwice   questionError = "a question of that id was asked already in this call"
	errTooMany questionError = "the call asks too much: 10 questions may be open at once, and 100 be asked in all"
)

func notOpen(format string, args ...any) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, format, args...)
}
