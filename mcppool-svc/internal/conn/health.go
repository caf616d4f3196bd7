package conn

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"
)

// retryAfter is how long after a failed connect its error is returned without another attempt.
const retryAfter = time.Second

// failure is the last failure to make a connection, or the loss of one.
type failure struct {
	err          error
	stderr       mcp.Stderr
	at           time.Time     // of the last failure; set back for a lost connection, so that it delays no connect
	since        time.Time     // of the first failure since the connection last worked
	inRow        int           // failed connects since the last success
	reconnecting chan struct{} // closed when the running reconnect has ended; nil if none
}

// needsPerson reports whether a person has to fix the failure: a login is missing, or the registration cannot be used.
func (f *failure) needsPerson() bool {
	kind := mcp.As(f.err).Kind
	return kind == mcp.LoginRequired || kind == mcp.Misconfigured
}

// remembered returns the error of the failure, marked as the result of an earlier connect.
func (f *failure) remembered() error {
	e := *mcp.As(f.err)
	e.Remembered = true
	return &e
}

// refuse is the circuit breaker of connects. It returns an error with the last failure for retryAfter, or for BreakFor once
// BreakAfter attempts in a row have failed. Then it returns nil, and one attempt shows whether the server works again. Called with mu held.
func (p *Pool) refuse(k key, id string) error {
	f := p.failed[k.failureKey()]
	left := time.Until(p.refusedUntil(k))
	switch {
	case f == nil || left <= 0 && !p.connectingFurther(k):
		return nil
	case left <= 0 || f.inRow < p.cfg.BreakAfter:
		return f.remembered()
	}
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
		"connecting to MCP server %s failed %d times in a row, so the pool does not connect to it for another %s; `pawl mcp list` shows the cause: %w",
		id, f.inRow, humantime.AtLeast(max(left, time.Second)), f.remembered()).With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(left)
}

// refusedUntil returns the time from which refuse allows an attempt; zero if nothing failed. Called with mu held.
func (p *Pool) refusedUntil(k key) time.Time {
	f := p.failed[k.failureKey()]
	switch {
	case f == nil:
		return time.Time{}
	case f.inRow < p.cfg.BreakAfter:
		return f.at.Add(retryAfter)
	}
	return f.at.Add(p.cfg.BreakFor)
}

// retryAt returns when a call that refuse rejects now should try again; zero if there is no such time. A failure that a person has to fix is
// retried less often: the fix wakes the waiting calls. Called with mu held.
func (p *Pool) retryAt(k key) time.Time {
	until := p.refusedUntil(k)
	switch {
	case time.Until(until) <= 0:
		return time.Time{}
	case p.failed[k.failureKey()].needsPerson():
		return until.Add(p.cfg.BreakFor)
	}
	return until
}

// connectingFurther reports whether k is a further connection while another further one is being made. Called with mu held.
func (p *Pool) connectingFurther(k key) bool {
	if k.nth == 0 {
		return false // callers share the attempt to make the first connection
	}
	for _, e := range p.entries[k.withNth(0)] {
		if e.nth > 0 && e.client == nil {
			return true
		}
	}
	return false
}

// Recovered forgets the failures of a user's connections to a server, because a connection made outside the pool succeeded. The next call
// then connects at once.
func (p *Pool) Recovered(server *registry.Server, user string) {
	k := keyOf(Use{Server: server, User: user})
	p.mu.Lock()
	defer p.mu.Unlock()
	forgotten := false
	for _, failed := range []key{k.failureKey(), k.withNth(1).failureKey()} {
		forgotten = forgotten || p.failed[failed] != nil
		delete(p.failed, failed)
	}
	if forgotten {
		p.notify(k)
	}
}

// connectFailed remembers a failed connect. A missing login or an unusable registration does not count against the server. Called with mu held.
func (p *Pool) connectFailed(k key, err error) {
	f := &failure{err: err, stderr: mcp.As(err).Stderr, at: time.Now(), since: time.Now(), inRow: 1}
	before := p.failed[k.failureKey()]
	if before != nil {
		f.since = before.since
	}
	switch {
	case f.needsPerson():
		f.inRow = 0
	case before != nil:
		f.inRow += before.inRow
	}
	p.failed[k.failureKey()] = f
}

const (
	// stateTimeout is how long reading a server's state waits for probes. Slower answers show at the next read, and to watchers.
	stateTimeout = time.Second
	// probeIdleAfter is how long a connection may be idle before its next use begins with a probe.
	probeIdleAfter = time.Minute
	// probeTimeout bounds a probe.
	probeTimeout = 5 * time.Second
)

// Probe probes a user's connections that were not confirmed recently, and connects again to HTTP servers that failed. It waits for the answers
// for at most stateTimeout.
func (p *Pool) Probe(ctx context.Context, user string, servers ...*registry.Server) {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	for _, done := range p.startProbes(user, servers) {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// startProbes begins the probes and returns channels that are closed when they end.
func (p *Pool) startProbes(user string, servers []*registry.Server) (running []<-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range servers {
		k, gone := keyOf(Use{Server: s, User: user}), true
		for e := range p.leasable() {
			if e.withNth(0).failureKey() == k {
				running, gone = p.probeOne(running, e, 0), false
			}
		}
		f := p.failed[k]
		if gone && f != nil && s.Isolation != registry.PerTask && s.HTTP != nil && !f.needsPerson() {
			running = p.reconnect(running, f, Use{Server: s, User: user})
		}
	}
	return running
}

// reconnect connects again to an HTTP server that failed at least ProbeAfter ago, and appends the channel that is closed at the end. It leaves
// out stdio servers, because reading a state must not start a program. Called with mu held.
func (p *Pool) reconnect(running []<-chan struct{}, f *failure, use Use) []<-chan struct{} {
	if p.closed || f.reconnecting == nil && time.Since(f.at) < p.cfg.ProbeAfter {
		return running
	}
	if f.reconnecting == nil {
		done := make(chan struct{})
		f.reconnecting = done
		p.work.Go(func() {
			defer close(done)
			ctx, cancel := context.WithTimeout(p.base, probeTimeout)
			defer cancel()
			if lease, err := p.Acquire(ctx, use); err == nil {
				lease.Release()
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			f.reconnecting = nil
		})
	}
	return append(running, f.reconnecting)
}

// probeOne probes a connection unless it was confirmed recently, and appends the channel that is closed when the probe ends. own is how many
// of the connection's leases are the caller's. Called with mu held.
func (p *Pool) probeOne(running []<-chan struct{}, e *entry, own int) []<-chan struct{} {
	if e.client == nil || p.closed {
		return running
	}
	if e.probing == nil && time.Since(e.confirmed) < p.cfg.ProbeAfter {
		return running
	}
	if e.probing == nil {
		e.probing = make(chan struct{})
		busy := e.leases > own
		p.work.Go(func() { p.probe(e, busy) })
	}
	return append(running, e.probing)
}

// probe probes one connection and retires it if the probe fails. busy means that other callers lease it: then a timeout is ignored,
// because during a call a server may answer nothing else.
func (p *Pool) probe(e *entry, busy bool) {
	ctx, cancel := context.WithTimeout(p.base, probeTimeout)
	defer cancel()
	err := e.client.Probe(ctx)

	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(e.probing)
	e.probing = nil
	silent := err != nil && mcp.As(err).Kind == mcp.Interrupted
	switch {
	case err == nil:
		e.confirmed = time.Now()
	case p.closed, silent && busy:
	case !e.retired:
		p.remember(e, err)
		p.retire(e)
	}
}

// failsProbe probes a connection that only the caller uses and that was idle for probeIdleAfter, and reports whether the probe retired it.
// Without the probe, a call to a server that has ended would have an unknown outcome.
func (p *Pool) failsProbe(ctx context.Context, e *entry) bool {
	p.mu.Lock()
	var running []<-chan struct{}
	if e.leases == 1 && time.Since(e.lastUsed) >= probeIdleAfter {
		e.lastUsed = time.Now() // callers that come meanwhile do not probe
		running = p.probeOne(nil, e, 1)
	}
	p.mu.Unlock()
	for _, done := range running {
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
	return len(running) > 0 && isClosed(e.retiredCh)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
