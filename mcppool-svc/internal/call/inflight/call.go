package inflight

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

const (
	// maxFollowers bounds the streams on one call.
	maxFollowers = 64
	// overhead is the approximate size of a finished call without its result.
	overhead = 512
)

// End is the outcome of a call: exactly one field is set. It is shared: do not change it.
type End struct {
	Result *mcppoolv1.CallResult
	Err    *errs.Error
}

func (e End) size() int64 {
	n := overhead + proto.Size(e.Result)
	if e.Err != nil {
		n += len(e.Err.Message)
		for k, v := range e.Err.Metadata {
			n += len(k) + len(v)
		}
		for _, v := range e.Err.Violations {
			n += len(v.Field) + len(v.Description)
		}
	}
	return int64(n)
}

// Call is one call, running or finished.
type Call struct {
	key     key
	user    string
	named   bool // the client gave the id
	adopted bool // another pool began it, as an MCP task
	hashes  []Hash

	// Guarded by Calls.mu.
	cancel    context.CancelCauseFunc // nil once the call ended
	unfetched bool                    // the call ended, and its result has not been sent to a client
	acked     bool                    // acknowledged while it runs: its result need not be kept
	ended     time.Time
	place     place

	done chan struct{} // closed at the end
	end  End           // set before done is closed

	mu        sync.Mutex
	followers []*Follower          // guarded by mu
	questions map[string]*question // guarded by mu; by id, closed ones too
	open      []string             // guarded by mu; ids of the open questions, the oldest first
	held      []*jsonrpc.Held      // guarded by mu; what the result uses of the budget for large messages
	released  bool                 // guarded by mu; the result is no longer kept
	task      *mcp.Task            // guarded by mu; nil unless the server runs the call as an MCP task
}

// Done is closed when the call has ended.
func (c *Call) Done() <-chan struct{} { return c.done }

// End returns the outcome. Call it only after Done is closed.
func (c *Call) End() End { return c.end }

// Follow returns a Follower that receives the state of the MCP task, the open questions, and then all new events. Call Leave when done.
func (c *Call) Follow() (*Follower, error) {
	select {
	case <-c.done:
		return newFollower(), nil // there are no more events
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.followers) >= maxFollowers {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"%d streams follow this call already; close some of them", maxFollowers).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	f := newFollower()
	c.catchUp(f)
	c.followers = append(c.followers, f)
	return f, nil
}

// FollowLazily is like Follow, but without a limit. It calls start with the Follower just before the Follower gets its first event. start must
// not block.
func (c *Call) FollowLazily(start func(*Follower)) *Follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &Follower{start: start}
	c.catchUp(f)
	c.followers = append(c.followers, f)
	return f
}

// Leave removes a Follower. The call continues.
func (c *Call) Leave(f *Follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.followers, f); i >= 0 {
		c.followers = slices.Delete(c.followers, i, i+1)
	}
}

// Notify passes an event to all followers. It never blocks.
func (c *Call) Notify(n mcp.Notification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.Task != nil {
		c.task = n.Task
	}
	for _, f := range c.followers {
		f.put(n)
	}
}

// Hold keeps a part of the budget until the result is no longer kept.
func (c *Call) Hold(h *jsonrpc.Held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		h.Release()
		return
	}
	c.held = append(c.held, h)
}

// release gives back what the call holds of the budget.
func (c *Call) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		h.Release()
	}
	c.held, c.released = nil, true
}

// matches reports whether the call has one of the hashes.
func (c *Call) matches(hashes ...Hash) bool {
	return slices.ContainsFunc(hashes, func(h Hash) bool { return slices.Contains(c.hashes, h) })
}

// Followers returns how many streams follow a user's call.
func (c *Calls) Followers(user, id string) int {
	c.mu.Lock()
	call := c.calls[keyOf(user, id)]
	c.mu.Unlock()
	if call == nil {
		return 0
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	return len(call.followers)
}

const (
	// maxPending and maxPendingBytes bound the events that wait for a slow follower; it gets a longer one, too.
	maxPending      = 64
	maxPendingBytes = 64 << 10
)

// Follower receives the events of a call. It never makes the server wait: of the progress that it has not taken it keeps only the newest, and
// makeRoom drops events.
type Follower struct {
	start func(*Follower) // guarded by Call.mu; called before the first event, then nil
	ready chan struct{}   // buffered; made before the first event

	mu      sync.Mutex
	pending []mcp.Notification // guarded by mu
}

func newFollower() *Follower { return &Follower{ready: make(chan struct{}, 1)} }

// Ready receives a value when there is something to take.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// put adds an event. It never blocks. Called with Call.mu held.
func (f *Follower) put(n mcp.Notification) {
	if f.start != nil {
		f.ready = make(chan struct{}, 1)
		f.start(f)
		f.start = nil
	}
	f.mu.Lock()
	if n.Progress != nil {
		f.pending = slices.DeleteFunc(f.pending, func(n mcp.Notification) bool { return n.Progress != nil })
	}
	f.makeRoom(sizeOf(n))
	f.pending = append(f.pending, n)
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// makeRoom drops the least important events if too many are pending to add one of a size: the oldest logs, then old states of the task.
// Questions stay: a call has a bounded number of them. Called with mu held.
func (f *Follower) makeRoom(size int) {
	for _, n := range f.pending {
		size += sizeOf(n)
	}
	drop := func(least func(mcp.Notification) bool) bool {
		i := slices.IndexFunc(f.pending, least)
		if i < 0 {
			return false
		}
		size -= sizeOf(f.pending[i])
		f.pending = slices.Delete(f.pending, i, i+1)
		return true
	}
	for (len(f.pending) >= maxPending || size > maxPendingBytes) && drop(func(n mcp.Notification) bool { return n.Log != nil }) {
	}
	for len(f.pending) >= maxPending && drop(func(n mcp.Notification) bool { return n.Task != nil }) {
	}
}

// sizeOf returns the approximate bytes of the texts of an event.
func sizeOf(n mcp.Notification) int {
	switch {
	case n.Progress != nil:
		return len(n.Progress.Message)
	case n.Log != nil:
		return len(n.Log.Data)
	}
	return 0
}

// Take returns the pending events and removes them.
func (f *Follower) Take() []mcp.Notification {
	f.mu.Lock()
	defer f.mu.Unlock()
	pending := f.pending
	f.pending = nil
	return pending
}

const (
	// maxAsked bounds the questions of a server during one call, and maxOpen the questions that are open at once.
	maxAsked = 100
	maxOpen  = 10
)

// question is a request for input by a call's server. Once closed, it keeps only the digest of the answer.
type question struct {
	asked  mcp.Question
	check  func(mcp.Answer) error
	answer chan mcp.Answer   // buffered; nil once the question is closed
	digest [sha256.Size]byte // of the answer; zero: none yet
	closed bool
}

// Ask opens a question to all present and later followers of the call. The channel receives the first answer that check accepts. Ask
// returns an error if the question cannot be asked; otherwise the caller must Close the question.
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

// Close closes a question, whether or not it is answered.
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
	case q.digest == digest:
		return nil
	case q.digest != [sha256.Size]byte{}:
		return notOpen("the question %.100q already has another answer", questionID)
	case q.closed:
		return notOpen("the question %.100q is no longer open: its call ended, the server withdrew it, or no answer came in time", questionID)
	}
	if err := q.check(a); err != nil {
		return err
	}
	q.digest = digest
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

// catchUp sends the state of the MCP task and the open questions to a new follower. Called with mu held.
func (c *Call) catchUp(f *Follower) {
	if c.task != nil {
		f.put(mcp.Notification{Task: c.task})
	}
	for _, id := range c.open {
		asked := c.questions[id].asked
		f.put(mcp.Notification{Question: &asked})
	}
}

// The errors of Ask.
var (
	errTwice   = errors.New("the server already asked a question with that id in this call")
	errTooMany = errors.New("the server asks too often: a call may have at most 10 open questions, and 100 in all")
)

func notOpen(format string, args ...any) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, format, args...)
}
