package conn

import (
	"context"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

const (
	// stateTimeout is how long a look at a server's state waits for probes. Slower answers show the next time, and to watchers.
	stateTimeout = time.Second
	// probeAfter is how long a connection may be idle before it is probed ahead of its next use.
	probeAfter = time.Minute
	// probeTimeout bounds a probe.
	probeTimeout = 5 * time.Second
)

// Probe probes a user's connections to servers if they have not answered recently: nothing else shows that a server ended which is
// reached by one request at a time. It waits for the answers, but not for long.
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
		k := keyOf(Use{Server: s, User: user})
		if s.Isolation != registry.PerTask {
			gone := true
			for _, e := range p.entries[k] {
				asked, gone = p.probeOne(asked, e, 0), false
			}
			if f := p.failed[k.failureKey()]; gone && f != nil && s.HTTP != nil && !f.notServersFault() {
				asked = p.reconnect(asked, f, Use{Server: s, User: user})
			}
			continue
		}
		for e := range p.leased() {
			if e.at(0).failureKey() == k {
				asked = p.probeOne(asked, e, 0)
			}
		}
	}
	return asked
}

// reconnect connects again to an HTTP server that failed a while ago: it may be back. A look at the state starts no program. Called with mu held.
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

// probe probes one connection. A server that is busy with a call may not answer anything else, so its silence proves nothing; that it
// cannot be reached does.
func (p *Pool) probe(e *entry, busy bool) {
	ctx, cancel := context.WithTimeout(p.base, probeTimeout)
	defer cancel()
	err := e.client.Probe(ctx)

	p.mu.Lock()
	defer p.mu.Unlock()
	close(e.probing)
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

// isDead probes a connection that only the caller uses if it was idle for long, and reports whether it was retired: a call that finds out
// that its server is gone would have an unknown outcome.
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
