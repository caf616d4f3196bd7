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
				asked, gone = p.probeOne(asked, e), false
			}
			if f := p.failed[k.failureKey()]; gone && f != nil && s.HTTP != nil && !f.notServersFault() {
				asked = p.reconnect(asked, f, Use{Server: s, User: user})
			}
			continue
		}
		for e := range p.leased() {
			if e.at(0).failureKey() == k {
				asked = p.probeOne(asked, e)
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

// probeOne is called with mu held.
func (p *Pool) probeOne(asked []<-chan struct{}, e *entry) []<-chan struct{} {
	if e.client == nil || p.closed {
		return asked
	}
	prober, ok := e.client.(mcp.Prober)
	if !ok || e.probing == nil && time.Since(e.heard) < p.cfg.ProbeAfter {
		return asked
	}
	if e.probing == nil {
		e.probing = make(chan struct{})
		p.work.Go(func() { p.probe(e, prober) })
	}
	return append(asked, e.probing)
}

// probe probes one connection. A server that is busy with a call may not answer anything else, so its silence proves nothing; that it
// cannot be reached does.
func (p *Pool) probe(e *entry, prober mcp.Prober) {
	ctx, cancel := context.WithTimeout(p.base, probeTimeout)
	defer cancel()
	err := prober.Probe(ctx)

	p.mu.Lock()
	defer p.mu.Unlock()
	close(e.probing)
	e.probing = nil
	silent := err != nil && mcp.As(err).Kind == mcp.Interrupted
	if p.closed || silent && e.calls > 0 || p.probed(e, err) {
		return
	}
	if e.calls == 0 {
		p.finish(e)
	}
}

// isStale reports whether a connection that only the caller uses was idle for long, and notes that it is probed now.
func (p *Pool) isStale(e *entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.calls > 1 || time.Since(e.idle) < probeAfter {
		return false
	}
	e.idle = time.Now() // once for all callers that come meanwhile
	return true
}

// isDead probes a stale connection and retires it if it does not answer: a call that finds this out would have an unknown outcome.
func (p *Pool) isDead(ctx context.Context, e *entry) bool {
	prober, ok := e.client.(mcp.Prober)
	if !ok || !p.isStale(e) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := prober.Probe(limited)
	if ctx.Err() != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.probed(e, err)
}

// probed reports whether a probe was answered, and retires the connection if not. Called with mu held.
func (p *Pool) probed(e *entry, err error) bool {
	if err == nil {
		e.heard = time.Now()
		return true
	}
	if !e.retired {
		p.remember(e, err)
	}
	p.retire(e)
	return false
}
