package inflight

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

const (
	// maxFollowers bounds the streams on one call.
	maxFollowers = 64
	// overhead is about what a finished call takes beside its result.
	overhead = 512
)

// End is how a call ended: one of the two. It is shared: do not change it.
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
	named   bool
	adopted bool // another pool began it, as an MCP task
	hashes  []Hash

	// Guarded by Calls.mu.
	cancel    context.CancelCauseFunc // nil once the call ended
	unfetched bool                    // it ended, and its result has not been sent to any client
	acked     bool                    // its result is not wanted
	ended     time.Time
	place     place

	done chan struct{} // closed at the end
	end  End           // set before done is closed

	mu        sync.Mutex
	followers []*Follower          // guarded by mu
	questions map[string]*question // guarded by mu; by id, closed ones too
	open      []string             // guarded by mu; ids of the open questions, in their order
	task      *mcp.Task            // guarded by mu; nil unless the server runs the call as an MCP task
}

// Done is closed when the call has ended.
func (c *Call) Done() <-chan struct{} { return c.done }

// End is how the call ended. Use it after Done.
func (c *Call) End() End { return c.end }

// Follow returns a Follower that receives the events from now on, and first the questions that are still open. Leave it when done.
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

// matches reports whether a request, by one of its hashes, is the one of this call.
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

// maxPending is how many events wait for a slow follower.
const maxPending = 64

// Follower receives the events of a call and never makes the server wait: if it is slow, older progress gives way to newer, and the
// oldest events to newer ones.
type Follower struct {
	ready chan struct{} // buffered

	mu      sync.Mutex
	pending []mcp.Notification // guarded by mu
}

func newFollower() *Follower { return &Follower{ready: make(chan struct{}, 1)} }

// Ready receives a value when there is something to take.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// put never blocks.
func (f *Follower) put(n mcp.Notification) {
	f.mu.Lock()
	f.makeRoom()
	f.pending = append(f.pending, n)
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// makeRoom drops the least important event if too many are pending: the oldest progress, else the oldest log, else an old state of
// the task. Questions stay: a call has a bounded number of them. Called with mu held.
func (f *Follower) makeRoom() {
	if len(f.pending) < maxPending {
		return
	}
	for _, least := range []func(mcp.Notification) bool{
		func(n mcp.Notification) bool { return n.Progress != nil },
		func(n mcp.Notification) bool { return n.Log != nil },
		func(n mcp.Notification) bool { return n.Task != nil },
	} {
		if i := slices.IndexFunc(f.pending, least); i >= 0 {
			f.pending = slices.Delete(f.pending, i, i+1)
			return
		}
	}
}

// Take returns the pending events and removes them.
func (f *Follower) Take() []mcp.Notification {
	f.mu.Lock()
	defer f.mu.Unlock()
	pending := f.pending
	f.pending = nil
	return pending
}
