package conn

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// Use describes what a connection is needed for.
type Use struct {
	Server  *registry.Server
	User    string
	Session string // keeps the connection open between uses until ReleaseSession or Config.SessionTimeout; may be empty
	// Call is set for a tool call, during which the server may ask for input.
	Call bool
	// Patience is how long a call may wait for its turn (see Config.Exclusive). Waiting, if not nil, is called once, before the wait.
	Patience time.Duration
	Waiting  func(why error)
}

// Lease is the right to use a connection until Release.
type Lease struct {
	pool  *Pool
	entry *entry
	use   Use
}

// Client returns the connection.
func (l *Lease) Client() mcp.Client { return l.entry.client }

// Tools returns the tools of the connection's server.
func (l *Lease) Tools() *catalog.Cache { return l.entry.tools }

// Stamp returns the number of the connection, unique in this pool, and a version that changes with every write over a connection of the
// same key.
func (l *Lease) Stamp() (connection, writes uint64) { return l.entry.number, l.entry.writes.Load() }

// Wrote records a write: cached results may be out of date. Call it before and after a call that writes.
func (l *Lease) Wrote() { l.entry.writes.Add(1) }

// Retired is closed once the connection gets no new leases. A long use should then move to another one.
func (l *Lease) Retired() <-chan struct{} { return l.entry.retiredCh }

// Release gives the connection back. Call it once.
func (l *Lease) Release() {
	p, e := l.pool, l.entry
	exclusive := p.isExclusive(l.use)
	p.mu.Lock()
	defer p.mu.Unlock()
	e.leases--
	if l.use.Call {
		e.running--
		if exclusive && e.client != nil && !e.client.Settled() {
			p.retire(e)
		}
	}
	e.lastUsed = time.Now()
	if e.retired && e.leases == 0 {
		p.finish(e)
	}
	p.wake()
}

// Close releases the connection after a request that ended with err. If err says that the connection is lost, Close retires it. If the
// request was interrupted, the next Pool.Probe probes the connection.
func (l *Lease) Close(err error) {
	if e, ok := errors.AsType[*mcp.Error](err); ok && (e.Lost || e.Kind == mcp.Interrupted) {
		l.pool.mu.Lock()
		if !e.Lost {
			l.entry.confirmed = time.Time{}
		} else {
			if !l.entry.retired {
				l.pool.remember(l.entry, e)
			}
			l.pool.retire(l.entry)
		}
		l.pool.mu.Unlock()
	}
	l.Release()
}

// Acquire leases a connection and makes it if needed. Callers share one attempt to connect, which continues if they give up.
// Errors are *mcp.Error, or *errs.Error if a limit is reached, the circuit breaker is open or the pool is closed.
func (p *Pool) Acquire(ctx context.Context, use Use) (*Lease, error) {
	k, arrived := keyOf(use), time.Now()
	for attempt := 1; ; attempt++ {
		e, err := p.joinAny(ctx, k, use, arrived)
		if err != nil {
			return nil, err
		}
		lease := &Lease{pool: p, entry: e, use: use}
		select {
		case <-e.ready:
		case <-ctx.Done():
			if !isClosed(e.ready) {
				lease.Release()
				return nil, mcp.GivenUp(ctx, false)
			}
		}
		if e.err != nil {
			lease.Release()
			if e.nth > 0 {
				continue // a further connection failed: wait for an existing one
			}
			return nil, e.err
		}
		select {
		case <-e.client.Done():
			// It ended before its watcher noticed. Connect again only once: the server may end each time.
			p.lost(e)
			lease.Release()
			if err := e.client.Err(); err != nil && attempt > 1 {
				return nil, err
			}
		default:
			if attempt == 1 && p.failsProbe(ctx, e) {
				lease.Release()
				continue
			}
			return lease, nil
		}
	}
}

// joinAny registers the caller at a connection, perhaps a new one.
func (p *Pool) joinAny(ctx context.Context, k key, use Use, arrived time.Time) (*entry, error) {
	var e *entry
	var err error
	if p.isExclusive(use) {
		e, err = p.joinExclusive(ctx, k, use, arrived)
	} else {
		p.mu.Lock()
		e, err = p.join(ctx, k, p.first(k), use, arrived)
		p.mu.Unlock()
	}
	if err != nil && errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED {
		p.refused.Add(1)
	}
	return e, err
}

// join registers the caller at e, or at a new entry of the key if e is nil. Called with mu held.
func (p *Pool) join(ctx context.Context, k key, e *entry, use Use, now time.Time) (*entry, error) {
	if p.closed {
		return nil, errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
			"the MCP pool is stopping; try again later").With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if e == nil {
		k = p.keyFor(k, nil)
		if err := p.refuse(k, use.Server.ID); err != nil {
			return nil, err
		}
		if err := p.makeRoom(k, use.Server); err != nil {
			return nil, err
		}
		writes := new(atomic.Uint64) // shared by all connections of a key
		if first := p.first(k.withNth(0)); first != nil {
			writes = first.writes
		}
		p.newest++
		e = &entry{
			number: p.newest, key: k, id: use.Server.ID, ready: make(chan struct{}), retiredCh: make(chan struct{}), begun: time.Now(),
			sessions: make(map[sessionKey]time.Time), writes: writes,
		}
		p.entries[k.withNth(0)], p.live[e] = slices.Insert(p.entries[k.withNth(0)], k.nth, e), true
		p.notify(k)
		// The attempt keeps the caller's trace, not its cancellation.
		p.work.Go(func() { p.establish(context.WithoutCancel(ctx), e, use.Server) })
	}
	e.leases++
	e.resume()
	if use.Call {
		e.running++
	}
	if use.Session != "" {
		e.sessions[sessionKey{use.User, use.Session}] = now
	}
	return e, nil
}

// establish makes an entry's connection and wakes the callers that wait for it.
func (p *Pool) establish(ctx context.Context, e *entry, server *registry.Server) {
	ctx, cancel := context.WithTimeout(ctx, server.StartLimit())
	defer cancel()
	defer context.AfterFunc(p.base, cancel)()
	start := time.Now()
	client, err := p.connect(ctx, server, e.user)

	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.notify(e.key)
	defer close(e.ready)
	if err != nil {
		e.err = err
		p.retire(e)
		delete(p.live, e)
		p.connectFailed(e.key, err)
		p.log.Warn("connecting to an MCP server failed", "mcp_id", e.id, "user", e.user, "error", err)
		return
	}
	p.log.Info("connected to an MCP server", "mcp_id", e.id, "user", e.user,
		"server", client.Info().String(), "took", time.Since(start))
	delete(p.failed, e.failureKey())
	defer p.wake() // calls that waited for this attempt to end
	now := time.Now()
	e.client, e.tools, e.connectedAt, e.lastUsed, e.confirmed = client, catalog.NewCache(client, p.tools), now, now, now
	if p.closed || e.retired && e.leases == 0 {
		p.finish(e) // meanwhile the pool was closed, or the entry was retired and all callers left
		return
	}
	client.OnChange(func() { p.notify(e.key) })
	p.work.Go(func() {
		<-client.Done()
		p.lost(e)
	})
}

// lost retires and closes a connection that has ended.
func (p *Pool) lost(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := e.client.Err(); err != nil && !e.retired {
		p.remember(e, err)
	}
	p.retire(e)
	p.finish(e)
}

// remember keeps the reason for which a connection was lost. Unlike a failed connect, a loss does not delay the next attempt. If the key
// has no other connection, the server's status shows the reason. Called with mu held, before the entry is retired.
func (p *Pool) remember(e *entry, err error) {
	k := e.failureKey()
	if !slices.ContainsFunc(p.entries[e.withNth(0)], func(other *entry) bool { return other != e }) {
		k = k.withNth(0)
	}
	p.failed[k] = &failure{err: err, stderr: e.client.Stderr(), at: time.Now().Add(-retryAfter), since: time.Now()}
	p.log.Warn("connection to an MCP server lost", "mcp_id", e.id, "user", e.user, "error", err)
}
