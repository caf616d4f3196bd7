package inflight

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"

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

// question is a request for input by a call's server. A closed one keeps only a digest.
type question struct {
	asked  mcp.Question
	check  func(mcp.Answer) error
	answer chan mcp.Answer   // buffered; nil once the question is closed
	given  [sha256.Size]byte // of the answer
	closed bool
}

// Ask opens a question to all followers of the call, present and later. An answer that check refuses does not count. The channel
// receives the answer; Close the question in any case. An error says why the question cannot be asked.
func (c *Call) Ask(q mcp.Question, check func(mcp.Answer) error) (<-chan mcp.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.questions[q.ID] != nil:
		return nil, errTwice
	case len(c.questions) >= maxAsked, len(c.open) >= maxOpen:
		return nil, errTooMany
	}
	if c.questions == nil {
		c.questions = make(map[string]*question)
	}
	own := &question{asked: q, check: check, answer: make(chan mcp.Answer, 1)}
	c.questions[q.ID] = own
	c.open = append(c.open, q.ID)
	for _, f := range c.followers {
		f.put(mcp.Notification{Question: &q})
	}
	return own.answer, nil
}

// Close ends a question, answered or not.
func (c *Call) Close(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.questions[id]; q != nil {
		c.close(q)
	}
}

// close closes a question. Called with mu held.
func (c *Call) close(q *question) {
	c.open = slices.DeleteFunc(c.open, func(id string) bool { return id == q.asked.ID })
	q.closed, q.check, q.answer = true, nil, nil
	q.asked = mcp.Question{ID: q.asked.ID}
}

// Answer answers a question of a user's call. Repeating the same answer has no effect and is no error.
func (c *Calls) Answer(user, id, questionID string, a mcp.Answer) error {
	c.mu.Lock()
	call := c.calls[keyOf(user, id)]
	c.mu.Unlock()
	if call == nil {
		return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND,
			"no call %.100q of yours is known here; it may have ended, or run in another pool", id)
	}
	return call.answer(questionID, a)
}

func (c *Call) answer(questionID string, a mcp.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, digest := c.questions[questionID], digestOf(a)
	switch {
	case q == nil:
		return notOpen("the call has no question %.100q", questionID)
	case q.given == digest:
		return nil
	case q.given != [sha256.Size]byte{}:
		return notOpen("the question %.100q already has another answer", questionID)
	case q.closed:
		return notOpen("the question %.100q is no longer open: its call ended, the server withdrew it, or no answer came in time", questionID)
	}
	if err := q.check(a); err != nil {
		return err
	}
	q.given = digest
	q.answer <- a
	c.close(q)
	return nil
}

// digestOf returns a digest of an answer that does not depend on the spacing of its JSON.
func digestOf(a mcp.Answer) [sha256.Size]byte {
	var b bytes.Buffer
	b.WriteString(string(a.Action))
	b.WriteByte(0)
	if json.Compact(&b, a.Content) != nil {
		b.Write(a.Content)
	}
	return sha256.Sum256(b.Bytes())
}

// catchUp gives a new follower the state of the task and the open questions. Called with mu held.
func (c *Call) catchUp(f *Follower) {
	if c.task != nil {
		f.put(mcp.Notification{Task: c.task})
	}
	for _, id := range c.open {
		asked := c.questions[id].asked
		f.put(mcp.Notification{Question: &asked})
	}
}

// Why a server may not ask.
var (
	errTwice   = errors.New("the server already asked a question with that id in this call")
	errTooMany = errors.New("the call asks too often: at most 10 questions may be open at once, and 100 be asked in all")
)

func notOpen(format string, args ...any) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, format, args...)
}
