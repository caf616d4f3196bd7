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

// retryAfter is how long the error of a failed connect is returned without another connect.
const retryAfter = time.Second

// failure is the last failure of a connection that could not be made, or was lost.
type failure struct {
	err    error
	stderr mcp.Stderr
	at     time.Time     // of the last failure; set back for a lost connection, so that it delays no connect
	since  time.Time     // of the first failure since the connection last worked
	inRow  int           // failed connects since the last success
	trying chan struct{} // closed when the reconnect that reading the state began has ended; nil if none
}

// notServersFault reports whether the server was not at fault.
func (f *failure) notServersFault() bool {
	kind := mcp.As(f.err).Kind
	return kind == mcp.LoginRequired || kind == mcp.Misconfigured
}

// remembered returns the error of the failure, marked as the result of an earlier connect.
func (f *failure) remembered() error {
	e := *mcp.As(f.err)
	e.Remembered = true
	return &e
}

// refuse is the circuit breaker of connects. It returns the last failure for a moment, and for longer after many failures in a row. After
// that, one attempt, which all callers share, shows whether the server works again. Nil lets the attempt be made. Called with mu held.
func (p *Pool) refuse(k key, id string) error {
	f := p.failed[k.failureKey()]
	left := time.Until(p.refusedUntil(k))
	switch {
	case f == nil || left <= 0 && !p.trying(k):
		return nil
	case left <= 0 || f.inRow < p.cfg.BreakAfter:
		return f.remembered()
	}
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
		"connecting to MCP server %s failed %d times in a row, so the pool does not connect to it for another %s; `pawl mcp list` shows the cause: %w",
		id, f.inRow, humantime.AtLeast(max(left, time.Second)), f.remembered()).With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(left)
}

// refusedUntil returns when refuse lets the next attempt be made; zero if nothing failed. Called with mu held.
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

// retryAt returns when a call that refuse turns away now should try again; zero if it lets an attempt be made. A
// failure that only people can fix is not retried each second: the fix retires connections, which wakes the waiting calls. Called with mu held.
func (p *Pool) retryAt(k key) time.Time {
	until := p.refusedUntil(k)
	switch {
	case time.Until(until) <= 0:
		return time.Time{}
	case p.failed[k.failureKey()].notServersFault():
		return until.Add(p.cfg.BreakFor)
	}
	return until
}

// trying reports whether a connection after the first is being made. Called with mu held.
func (p *Pool) trying(k key) bool {
	if k.nth == 0 {
		return false // callers share the attempt for the first one
	}
	for _, e := range p.entries[k.at(0)] {
		if e.nth > 0 && e.client == nil {
			return true
		}
	}
	return false
}

// Recovered forgets the failures of a user's connections to a server, because a connection was made outside the pool. The next call then
// connects at once.
func (p *Pool) Recovered(server *registry.Server, user string) {
	k := keyOf(Use{Server: server, User: user})
	p.mu.Lock()
	defer p.mu.Unlock()
	forgotten := false
	for _, place := range []key{k.failureKey(), k.at(1).failureKey()} {
		forgotten = forgotten || p.failed[place] != nil
		delete(p.failed, place)
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
	case f.notServersFault():
		f.inRow = 0
	case before != nil:
		f.inRow += before.inRow
	}
	p.failed[k.failureKey()] = f
}

const (
	// stateTimeout is how long reading a server's state waits for probes. Slower answers show at the next read, and to watchers.
	stateTimeout = time.Second
	// probeAfter is how long a connection may be idle before it is probed ahead of its next use.
	probeAfter = time.Minute
	// probeTimeout bounds a probe.
	probeTimeout = 5 * time.Second
)

// Probe probes a user's connections to servers if they have not answered recently: with one HTTP request per message, nothing else shows
// that a server has ended. It waits for the answers, but for no longer than stateTimeout.
func (p *Pool) Probe(ctx context.Context, user string, servers ...*registry.Server) {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	for _, asked := range p.startProbes(user, servers) {
		select {
		case <-asked:
		case <-ctx.Done():
			return
		}
	}
}

// startProbes begins the probes and returns channels that are closed when they end.
func (p *Pool) startProbes(user string, servers []*registry.Server) (asked []<-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range servers {
		k, gone := keyOf(Use{Server: s, User: user}), true
		for e := range p.leased() {
			if e.at(0).failureKey() == k {
				asked, gone = p.probeOne(asked, e, 0), false
			}
		}
		f := p.failed[k]
		if gone && f != nil && s.Isolation != registry.PerTask && s.HTTP != nil && !f.notServersFault() {
			asked = p.reconnect(asked, f, Use{Server: s, User: user})
		}
	}
	return asked
}

// reconnect connects again to an HTTP server that failed a while ago: it may be back. It is for HTTP only, because reading the state must
// start no program. Called with mu held.
func (p *Pool) reconnect(asked []<-chan struct{}, f *failure, use Use) []<-chan struct{} {
	if p.closed || f.trying == nil && time.Since(f.at) < p.cfg.ProbeAfter {
		return asked
	}
	if f.trying == nil {
		done := make(chan struct{})
		f.trying = done
		p.work.Go(func() {
			defer close(done)
			ctx, cancel := context.WithTimeout(p.base, probeTimeout)
			defer cancel()
			if lease, err := p.Acquire(ctx, use); err == nil {
				lease.Release()
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			f.trying = nil
		})
	}
	return append(asked, f.trying)
}

// probeOne probes a connection unless it answered recently. own is how many of its leases are the caller's. Called with mu held.
func (p *Pool) probeOne(asked []<-chan struct{}, e *entry, own int) []<-chan struct{} {
	if e.client == nil || p.closed {
		return asked
	}
	if e.probing == nil && time.Since(e.heard) < p.cfg.ProbeAfter {
		return asked
	}
	if e.probing == nil {
		e.probing = make(chan struct{})
		busy := e.calls > own
		p.work.Go(func() { p.probe(e, busy) })
	}
	return append(asked, e.probing)
}

// probe probes one connection and retires it if the probe fails. A timeout is ignored if the server is busy with a call, because such a
// server may answer nothing else; any other error counts.
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
		e.heard = time.Now()
	case p.closed, silent && busy:
	case !e.retired:
		p.remember(e, err)
		p.retire(e)
	}
}

// isDead probes a connection that only the caller uses if it was idle for long, and reports whether the probe retired it. Without the probe,
// a call to a server that is gone would have an unknown outcome.
func (p *Pool) isDead(ctx context.Context, e *entry) bool {
	p.mu.Lock()
	var asked []<-chan struct{}
	if e.calls == 1 && time.Since(e.idle) >= probeAfter {
		e.idle = time.Now() // once for all callers that come meanwhile
		asked = p.probeOne(nil, e, 1)
	}
	p.mu.Unlock()
	for _, done := range asked {
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
	return len(asked) > 0 && isClosed(e.retiredCh)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
