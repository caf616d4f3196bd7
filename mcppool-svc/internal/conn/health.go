package conn

import (
	"context"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// stateTimeout is how long a look at a server's state waits for probes. Slower answers show the next time, and to watchers.
const stateTimeout = time.Second

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
			for e := range p.siblings(k) {
				asked, gone = p.probeOne(asked, e), false
			}
			if f := p.failed[k.failureKey()]; gone && f != nil && s.HTTP != nil && !f.notServersFault() {
				asked = p.reconnect(asked, f, Use{Server: s, User: user})
			}
			continue
		}
		for _, e := range p.entries {
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
