package ledger

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/fair"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

// maxFollowers bounds the streams on one call.
const maxFollowers = 64

// End is how a call ended: one of the two. It is shared: do not change it.
type End struct {
	Result *mcppoolv1.CallResult
	Err    *errs.Error
}

// overhead is about what a finished call takes beside its result.
const overhead = 512

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
	key   key
	user  string
	named bool
	// adopted: another pool began it, as a task.
	adopted bool
	hashes  []Hash

	// Guarded by the ledger's mu.
	cancel  context.CancelCauseFunc // nil once it ended
	awaited bool                    // it ended, and nobody has fetched what it came to
	acked   bool                    // nobody wants to know the end any more
	ended   time.Time               // when that was
	before  *Call                   // among the finished
	after   *Call                   // the same
	slot    fair.Slot[*Call]        // the same, among the user's

	over atomic.Bool // it ended
	end  End         // after that

	ending sync.Mutex
	done   chan struct{} // guarded by ending; closed at the end; nil where nobody waits for it

	mu        sync.Mutex
	box       Mailbox              // of who makes the call
	followers []*Mailbox           // guarded by mu
	leader    [1]*Mailbox          // where the first of them is kept
	questions map[string]*question // guarded by mu; by id, closed ones too
	open      []string             // guarded by mu; ids of those that are, in their order
	task      *mcp.Task            // guarded by mu; where the server does the call as one
}

// Done is closed when the call has ended.
func (c *Call) Done() <-chan struct{} {
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.over.Load() {
			close(c.done)
		}
	}
	return c.done
}

// End is how, after Done.
func (c *Call) End() End { return c.end }

// finish tells those who wait for the call's end of it. It waits for nothing: the ledger's mu is held.
func (c *Call) finish(end End) {
	c.end = end
	c.ending.Lock()
	defer c.ending.Unlock()
	c.over.Store(true)
	if c.done != nil {
		close(c.done)
	}
}

// Follow returns a mailbox that gets what the server says from now on, and the questions that are still open. Leave it in the
// end.
func (c *Call) Follow() (*Mailbox, error) {
	if c.over.Load() {
		return newMailbox(), nil // nothing will come
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.followers) >= maxFollowers {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"%d streams follow this call already; close some of them", maxFollowers).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	box := newMailbox()
	c.catchUp(box)
	c.followers = append(c.followers, box)
	return box, nil
}

// Lead is Follow for who makes the call: begin is called once, when something comes for the first time; it must not block.
func (c *Call) Lead(begin func(*Mailbox)) *Mailbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.box.begin = begin
	c.leader[0] = &c.box
	c.followers = append(c.leader[:], c.followers...)
	return &c.box
}

// Leave undoes Follow and Lead: nothing comes any more. The call goes on.
func (c *Call) Leave(box *Mailbox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.followers, box); i >= 0 {
		c.followers = slices.Delete(c.followers, i, i+1)
	}
	box.begin = nil // it may hold on to the request, for as long as the call is kept
}

// Notify tells all followers. It never blocks.
func (c *Call) Notify(n mcp.Notification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.Task != nil {
		c.task = n.Task
	}
	for _, box := range c.followers {
		box.put(n)
	}
}

// is says whether a request is for what this call is of.
func (c *Call) is(hashes []Hash) bool {
	return slices.ContainsFunc(hashes, func(h Hash) bool { return slices.Contains(c.hashes, h) })
}
