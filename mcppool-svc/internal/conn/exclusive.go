package conn

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// maxWaiters bounds the calls that wait for the connections of one key.
const maxWaiters = 100

// isExclusive reports whether a use needs a connection over which no other call runs. A connection that users share is never exclusive.
func (p *Pool) isExclusive(use Use) bool {
	return use.Call && p.cfg.Exclusive != nil && use.Server.Isolation != registry.Shared && p.cfg.Exclusive(use.Server)
}

// waiter is a call that needs a connection of its own.
type waiter struct {
	woken    chan struct{} // buffered; receives a value when the call should try again
	why      error         // guarded by the pool's mu; why it waits
	retryAt  time.Time     // when it should try again without being woken; zero: never
	reported bool          // Use.Waiting was called
}

// joinExclusive registers the caller at a connection over which no other call runs. Calls get their turn in the order of arrival.
func (p *Pool) joinExclusive(ctx context.Context, k key, use Use, arrived time.Time) (*entry, error) {
	w := &waiter{woken: make(chan struct{}, 1), why: errBehind}
	p.mu.Lock()
	if len(p.queues[k]) >= maxWaiters {
		defer p.mu.Unlock()
		return nil, p.busy(k, use, w.why)
	}
	p.queues[k] = append(p.queues[k], w)
	p.mu.Unlock()
	defer p.dequeue(k, w)
	for {
		e, err := p.tryJoin(ctx, k, use, w)
		if e == nil && err == nil {
			err = p.wait(ctx, k, use, w, arrived.Add(use.Patience))
		}
		if e != nil || err != nil {
			return e, err
		}
	}
}

// tryJoin joins a free connection, or a new one if allowed. If it returns nil, nil, w must wait.
func (p *Pool) tryJoin(ctx context.Context, k key, use Use, w *waiter) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed && p.queues[k][0] != w {
		return nil, nil
	}
	free := p.free(k, use)
	w.retryAt = p.retryAt(p.keyFor(k, free)) // before join: afterwards this time may have passed
	e, err := p.join(ctx, k, free, use, time.Now())
	if err != nil && !p.closed && p.first(k) != nil {
		w.why = err
		return nil, nil // an existing connection will become free
	}
	return e, err
}

func (p *Pool) dequeue(k key, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := slices.DeleteFunc(p.queues[k], func(other *waiter) bool { return other == w })
	if p.queues[k] = queue; len(queue) == 0 {
		delete(p.queues, k)
	}
	p.wake()
}

// wake wakes the first call of each queue: there may be a connection for it now. Called with mu held.
func (p *Pool) wake() {
	for _, queue := range p.queues {
		select {
		case queue[0].woken <- struct{}{}:
		default:
		}
	}
}

// errBehind is why a call waits while it is not the first in its queue.
var errBehind = &mcp.Error{Kind: mcp.Unavailable, Message: "other calls came first"}

// wait returns nil when w should try again, or the error that ends the wait.
func (p *Pool) wait(ctx context.Context, k key, use Use, w *waiter, until time.Time) error {
	p.mu.Lock()
	busy := p.busy(k, use, w.why)
	p.mu.Unlock()
	if !w.reported && use.Waiting != nil {
		use.Waiting(busy)
	}
	w.reported = true
	var retry <-chan time.Time
	if !w.retryAt.IsZero() {
		retry = time.After(time.Until(w.retryAt))
	}
	select {
	case <-w.woken:
		return nil
	case <-retry:
		return nil
	case <-ctx.Done():
		return mcp.GivenUp(ctx, false)
	case <-time.After(time.Until(until)):
		return busy
	}
}

// busy returns the error of a call that gets no connection of its own. Called with mu held.
func (p *Pool) busy(k key, use Use, why error) error {
	n, connections := len(p.entries[k]), "the connection to it is"
	if n > 1 {
		connections = "the connections to it are"
	}
	return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
		"MCP server %s asks for input without saying for which call, so only one of your calls at a time runs over a connection to it; "+
			"%s busy (%d), and the pool cannot make another connection now: %w; answer the open questions, or try again later",
		use.Server.ID, connections, n, why).With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(retryAfter)
}

// first returns the connection for requests other than exclusive calls, or nil. Called with mu held.
func (p *Pool) first(k key) *entry {
	if all := p.entries[k]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// free returns a connection over which no call runs, or nil. It prefers the connection that the session used last. It
// retires connections that are not settled: their servers may still ask for input for a call that was given up. Called with mu held.
func (p *Pool) free(k key, use Use) *entry {
	var best *entry
	var last time.Time
	for _, e := range slices.Clone(p.entries[k]) {
		if e.running > 0 {
			continue
		}
		if e.client != nil && !e.client.Settled() {
			p.retire(e)
			continue
		}
		used := e.sessions[sessionKey{use.User, use.Session}]
		if best == nil || use.Session != "" && used.After(last) {
			best, last = e, used
		}
	}
	return best
}

// keyFor returns the key of e. If e is nil, it returns the key of a new entry, with the lowest free nth. Called with mu held.
func (p *Pool) keyFor(k key, e *entry) key {
	if e != nil {
		return e.key
	}
	all, nth := p.entries[k], 0
	for nth < len(all) && all[nth].nth == nth {
		nth++
	}
	return k.withNth(nth)
}
