package conn

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// maxTurns is how many calls may wait for one of the same connections.
const maxTurns = 100

// Separate sets which servers ask for input without saying which call they ask for. Only one call at a time runs over a
// connection to such a server, so that there is no doubt; further calls of the same user, or task, get further connections,
// or wait for their turn where there can be no more. What is no call goes over the first. It is set before the pool is used.
func (p *Pool) Separate(asks func(*registry.Server) bool) { p.asks = asks }

// separates says whether a use is to have its connection to itself. Users who share one would have many otherwise: what they
// share is the point there.
func (p *Pool) separates(use Use) bool {
	return use.Call && p.asks != nil && use.Server.Isolation != registry.Shared && p.asks(use.Server)
}

// turn is that of a call which wants a connection of its own.
type turn struct {
	come   chan struct{} // buffered; it may try
	why    error         // guarded by the pool's mu; it waits
	queued bool          // guarded by the pool's mu
	again  time.Time     // when it may try though nobody wakes it; zero: never
	told   bool
}

// enterAlone counts the caller in at a connection over which no other call runs. Calls get theirs in the order they came.
func (p *Pool) enterAlone(ctx context.Context, k key, use Use, came time.Time) (*entry, error) {
	until := came.Add(use.Patience)
	t := &turn{come: make(chan struct{}, 1)}
	defer p.unqueue(k, t)
	for {
		e, err := p.try(ctx, k, use, t)
		if e != nil || err != nil {
			return e, err
		}
		if err := p.wait(ctx, k, use, t, until); err != nil {
			return nil, err
		}
	}
}

// try joins a connection that is free, or one that can be made; neither entry nor error: t has to wait.
func (p *Pool) try(ctx context.Context, k key, use Use, t *turn) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if queue := p.queues[k]; !p.closed && len(queue) > 0 && queue[0] != t {
		return nil, p.queue(k, use, t, errTurn)
	}
	at := k.at(p.gap(k))
	if free := p.free(k, use); free != nil {
		at = free.key
	}
	t.again = p.mayTryAt(at) // before join asks, as the time may come meanwhile
	e, err := p.join(ctx, at, use, time.Now())
	if err != nil && !p.closed && p.first(k) != nil {
		return nil, p.queue(k, use, t, err) // one of those that there are comes free sooner or later
	}
	p.turnedAway(err)
	return e, err
}

// queue lets t wait, unless too many do. Called with mu held.
func (p *Pool) queue(k key, use Use, t *turn, why error) error {
	t.why = why
	if t.queued {
		return nil
	}
	if len(p.queues[k]) >= maxTurns {
		err := p.busy(k, use, why)
		p.turnedAway(err)
		return err
	}
	t.queued = true
	p.queues[k] = append(p.queues[k], t)
	return nil
}

func (p *Pool) unqueue(k key, t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !t.queued {
		return
	}
	left := slices.DeleteFunc(p.queues[k], func(other *turn) bool { return other == t })
	if p.queues[k] = left; len(left) == 0 {
		delete(p.queues, k)
	}
	p.wake()
}

// wake lets those try who are first in their queues, because there may be a connection for them now. Called with mu held.
func (p *Pool) wake() {
	for _, queue := range p.queues {
		select {
		case queue[0].come <- struct{}{}:
		default:
		}
	}
}

// errTurn is why a call waits that is not the first to.
var errTurn = &mcp.Error{Kind: mcp.Unavailable, Message: "others came first"}

// wait waits until t may try again.
func (p *Pool) wait(ctx context.Context, k key, use Use, t *turn, until time.Time) error {
	p.mu.Lock()
	busy := p.busy(k, use, t.why)
	p.mu.Unlock()
	if !t.told && use.Waiting != nil {
		use.Waiting(busy)
	}
	t.told = true
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	var again <-chan time.Time
	if !t.again.IsZero() {
		again = time.After(time.Until(t.again))
	}
	select {
	case <-t.come:
		return nil
	case <-again:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	case <-timer.C:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.turnedAway(busy)
		return busy
	}
}

// busy is why a call gets no connection of its own. Called with mu held.
func (p *Pool) busy(k key, use Use, why error) error {
	n := 0
	for range p.those(k) {
		n++
	}
	connections := "the connection to it is"
	if n > 1 {
		connections = "the connections to it are"
	}
	return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
		"MCP server %s asks for input without saying for which call, so only one of your calls at a time runs over a connection to it; "+
			"%s busy (%d), and there can be no other one now: %w; answer the questions that are open, or try again later",
		use.Server.ID, connections, n, why).With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(retryAfter)
}

// turnedAway counts connections that a limit did not let be made. Called with mu held.
func (p *Pool) turnedAway(err error) {
	if err != nil && errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED {
		p.refused++
	}
}

// those are the connections of a key, the first one first. Called with mu held.
func (p *Pool) those(k key) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for n := 0; n <= p.top[k]; n++ {
			if e := p.entries[k.at(n)]; e != nil && !yield(e) {
				return
			}
		}
	}
}

// first is the one that what is no call goes over; nil where there is none. Called with mu held.
func (p *Pool) first(k key) *entry {
	for e := range p.those(k) {
		return e
	}
	return nil
}

// isLast says whether there is no other connection of an entry's key. Called with mu held.
func (p *Pool) isLast(e *entry) bool {
	for other := range p.those(e.at(0)) {
		if other != e {
			return false
		}
	}
	return true
}

// unsettled says whether a connection's server may yet ask for a call that is gone.
func (e *entry) unsettled() bool {
	s, ok := e.client.(mcp.Settler)
	return ok && !s.Settled()
}

// forsake takes a connection out of use because what its server asks may be for a call that is gone. What stands on it is to be made
// anew where the calls go. Called with mu held.
func (p *Pool) forsake(e *entry) {
	e.forsaken = true
	p.retire(e)
	if e.over() {
		p.finish(e)
	}
}

// over says whether nothing keeps a retired connection open. Called with the pool's mu held.
func (e *entry) over() bool { return e.calls == 0 || e.forsaken && e.calls == e.standing }

// free is a connection over which no call runs; best the one that the session used last, since its server may remember it. Called
// with mu held.
func (p *Pool) free(k key, use Use) *entry {
	var best *entry
	var last time.Time
	for e := range p.those(k) {
		if e.running > 0 {
			continue
		}
		if e.unsettled() {
			p.forsake(e)
			continue
		}
		used := e.sessions[hold{use.User, use.Session}]
		if best == nil || use.Session != "" && used.After(last) {
			best, last = e, used
		}
	}
	return best
}

// gap is the lowest nth that is not taken. Called with mu held.
func (p *Pool) gap(k key) int {
	n := 0
	for p.entries[k.at(n)] != nil {
		n++
	}
	return n
}

// raise and lower keep the highest nth in use. Called with mu held.
func (p *Pool) raise(k key) {
	if k.nth > p.top[k.at(0)] {
		p.top[k.at(0)] = k.nth
	}
}

func (p *Pool) lower(k key) {
	first := k.at(0)
	for p.top[first] > 0 && p.entries[first.at(p.top[first])] == nil {
		p.top[first]--
	}
	if p.top[first] == 0 {
		delete(p.top, first)
	}
}

// writesOf counts what is written over all connections of a key: they lead to the same. Called with mu held.
func (p *Pool) writesOf(k key) *atomic.Uint64 {
	if first := p.first(k.at(0)); first != nil {
		return first.writes
	}
	return new(atomic.Uint64)
}
