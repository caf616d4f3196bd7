package conn

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// Use says who wants which connection, and whether beyond this call.
type Use struct {
	Server  *registry.Server
	User    string
	Session string // held until ReleaseSession; empty: for this lease alone
	// Call: it is for a tool call, during which the server may ask back.
	Call bool
	// Standing: it is for something that is made anew over another connection, should this one end.
	Standing bool
	// Patience is how long a call may wait for its turn, and Waiting is told first why it does; it may be nil. See Separate.
	Patience time.Duration
	Waiting  func(why error)
}

// Lease is the right to use a connection until Release.
type Lease struct {
	pool  *Pool
	entry *entry
	use   Use
}

// Client is the connection.
func (l *Lease) Client() mcp.Client { return l.entry.client }

// Tools is what the connection's server offers.
func (l *Lease) Tools() *catalog.Cache { return l.entry.tools }

// Stamp is which connection it is, by a number that no other one of this pool has, and how often it was written over.
func (l *Lease) Stamp() (connection, writes uint64) { return l.entry.number, l.entry.writes.Load() }

// Wrote says that something which was read over the connection may be another thing by now.
func (l *Lease) Wrote() { l.entry.writes.Add(1) }

// Retired is closed once the connection is handed out no more: whoever uses it for long does better with another one.
func (l *Lease) Retired() <-chan struct{} {
	p, e := l.pool, l.entry
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.withdrawn == nil {
		e.withdrawn = make(chan struct{})
		if e.retired {
			close(e.withdrawn)
		}
	}
	return e.withdrawn
}

// Release gives the connection back. Call it once.
func (l *Lease) Release() {
	p, e := l.pool, l.entry
	alone := p.separates(l.use)
	p.mu.Lock()
	defer p.mu.Unlock()
	e.calls--
	if l.use.Standing {
		e.standing--
	}
	if l.use.Call {
		e.running--
		if alone && e.unsettled() {
			p.forsake(e)
		}
	}
	e.idle = time.Now()
	if e.retired && e.over() {
		p.finish(e)
	}
	p.wake()
}

// Close releases the connection after a request that ended with err. A connection that err ended is not leased again; calls of others
// that still run over it may end. If the server did not answer in time, the connection is probed before its state is shown.
func (l *Lease) Close(err error) {
	var e *mcp.Error
	if errors.As(err, &e) && (e.Lost || e.Kind == mcp.Interrupted) {
		l.pool.mu.Lock()
		if !e.Lost {
			l.entry.heard = time.Time{}
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

// Acquire leases a connection, making it where needed. Several callers share one attempt, which goes on when one of them
// gives up. Errors are *mcp.Error, or *errs.Error where a limit is reached or the pool is closed.
func (p *Pool) Acquire(ctx context.Context, use Use) (*Lease, error) {
	k, came := keyOf(use), time.Now()
	for attempt := 1; ; attempt++ {
		e, err := p.enter(ctx, k, use, came)
		if err != nil {
			return nil, err
		}
		lease := &Lease{pool: p, entry: e, use: use}
		if !e.await(ctx) {
			lease.Release()
			return nil, gaveUp(ctx)
		}
		if e.err != nil {
			lease.Release()
			if e.nth > 0 {
				continue // there are others, and there is a turn to wait for
			}
			return nil, e.err
		}
		select {
		case <-e.client.Done():
			// It died before its watcher could say so. A server that dies each time is not started for ever.
			p.lost(e)
			lease.Release()
			if err := e.client.Err(); err != nil && attempt > 1 {
				return nil, err
			}
		default:
			if attempt == 1 && p.isDead(ctx, e) {
				lease.Release()
				continue
			}
			return lease, nil
		}
	}
}

// await waits until an entry is ready; false where ctx ended before. Most are.
func (e *entry) await(ctx context.Context) bool {
	select {
	case <-e.ready:
		return true
	default:
	}
	select {
	case <-e.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// gaveUp is what somebody hears who went away.
func gaveUp(ctx context.Context) error {
	return &mcp.Error{Kind: mcp.Interrupted, Message: context.Cause(ctx).Error(), Err: errors.Join(ctx.Err(), context.Cause(ctx))}
}

// enter counts the caller in at a connection, perhaps a new one.
func (p *Pool) enter(ctx context.Context, k key, use Use, came time.Time) (*entry, error) {
	if p.separates(use) {
		return p.enterAlone(ctx, k, use, came)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := p.first(k); first != nil {
		k = first.key
	}
	e, err := p.join(ctx, k, use, came)
	p.turnedAway(err)
	return e, err
}

// join counts the caller in at an entry, a new one where there is none. Called with mu held.
func (p *Pool) join(ctx context.Context, k key, use Use, now time.Time) (*entry, error) {
	if p.closed {
		return nil, errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
			"the MCP pool is stopping; try again later").With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	e := p.entries[k]
	if e == nil {
		if err := p.refuse(k, use.Server.ID); err != nil {
			return nil, err
		}
		if err := p.makeRoom(k, use.Server); err != nil {
			return nil, err
		}
		p.made++
		e = &entry{
			number: p.made, key: k, id: use.Server.ID, ready: make(chan struct{}), begun: time.Now(), sessions: make(map[hold]time.Time), writes: p.writesOf(k),
		}
		p.entries[k], p.live[e] = e, true
		p.raise(k)
		p.tell(k)
		// The attempt keeps the caller's trace, not its end.
		p.work.Go(func() { p.establish(context.WithoutCancel(ctx), e, use.Server) })
	}
	e.calls++
	e.awaken()
	if use.Call {
		e.running++
	}
	if use.Standing {
		e.standing++
	}
	if use.Session != "" {
		e.sessions[hold{use.User, use.Session}] = now
	}
	return e, nil
}

// establish makes an entry's connection and tells those who wait for it.
func (p *Pool) establish(ctx context.Context, e *entry, server *registry.Server) {
	ctx, cancel := context.WithTimeout(ctx, server.StartLimit())
	defer cancel()
	defer context.AfterFunc(p.base, cancel)()
	start := time.Now()
	client, err := p.connect(ctx, server, e.user)

	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell(e.key)
	defer close(e.ready)
	if err != nil {
		e.err = err
		p.retire(e)
		delete(p.live, e)
		p.failedAgain(e.key, err)
		p.log.Warn("connecting to an MCP server failed", "mcp_id", e.id, "user", e.user, "error", err)
		return
	}
	p.log.Info("connected to an MCP server", "mcp_id", e.id, "user", e.user,
		"server", client.Info().String(), "took", time.Since(start))
	delete(p.failed, e.place())
	defer p.wake() // who waits because an attempt was under way
	now := time.Now()
	e.client, e.tools, e.made, e.idle, e.heard = client, catalog.NewCache(client, p.tools), now, now, now
	if e.retired && e.calls == 0 {
		p.finish(e) // it was retired, and everybody left, while it was being made
		return
	}
	if p.closed {
		p.finish(e)
		return
	}
	p.attend(e)
	p.work.Go(func() { p.watch(e) })
}

// watch waits for a connection's end, whoever brings it about.
func (p *Pool) watch(e *entry) {
	<-e.client.Done()
	p.lost(e)
}

// lost takes a dead connection out of circulation and closes what is left of it.
func (p *Pool) lost(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := e.client.Err(); err != nil && !e.retired {
		p.remember(e, err)
	}
	p.retire(e)
	p.finish(e)
}

// remember keeps why a connection was lost. Unlike a failed connect it does not delay the next try. The last one that is lost tells of
// the server, whichever it was. Called with mu held, before the entry is retired.
func (p *Pool) remember(e *entry, err error) {
	k := e.place()
	if p.isLast(e) {
		k = k.at(0)
	}
	p.failed[k] = &failure{err: err, stderr: mcp.StderrOf(e.client), at: time.Now().Add(-retryAfter), since: time.Now()}
	p.log.Warn("connection to an MCP server lost", "mcp_id", e.id, "user", e.user, "error", err)
}
