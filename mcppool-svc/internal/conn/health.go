package conn

import (
	"context"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// lookLimit is how long those who look at states wait for a sign of life. What takes longer shows the next time, and to those who
// watch.
const lookLimit = time.Second

// Prove asks for a sign of life of a user's connections to servers, where the last one is not recent: nothing else tells that
// a server died which is reached by a request at a time. It waits until their states are true, but not for long.
func (p *Pool) Prove(ctx context.Context, user string, servers ...*registry.Server) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	for _, asked := range p.prove(user, servers) {
		select {
		case <-asked:
		case <-ctx.Done():
			return
		}
	}
}

// prove begins the probes, and returns what is closed when each is over.
func (p *Pool) prove(user string, servers []*registry.Server) (asked []<-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range servers {
		k := keyOf(Use{Server: s, User: user})
		if s.Isolation != registry.PerTask {
			gone := true
			for e := range p.those(k) {
				asked, gone = p.proveOne(asked, e), false
			}
			if f := p.failed[k.place()]; gone && f != nil && s.HTTP != nil && !f.saysNothing() {
				asked = p.tryAgain(asked, f, Use{Server: s, User: user})
			}
			continue
		}
		for _, e := range p.entries {
			if e.at(0).place() == k {
				asked = p.proveOne(asked, e)
			}
		}
	}
	return asked
}

// tryAgain connects anew to a server over HTTP that failed a while ago: it may be back. A program is not started because somebody looks.
// Called with mu held.
func (p *Pool) tryAgain(asked []<-chan struct{}, f *failure, use Use) []<-chan struct{} {
	if p.closed || f.trying == nil && time.Since(f.at) < p.cfg.ProbeAfter {
		return asked
	}
	if f.trying == nil {
		done := make(chan struct{})
		f.trying = done
		p.work.Go(func() {
			defer close(done)
			ctx, cancel := context.WithTimeout(p.base, probeLimit)
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

// proveOne is called with mu held.
func (p *Pool) proveOne(asked []<-chan struct{}, e *entry) []<-chan struct{} {
	if e.client == nil || p.closed {
		return asked
	}
	prober, ok := e.client.(mcp.Prober)
	if !ok || e.proving == nil && time.Since(e.heard) < p.cfg.ProbeAfter {
		return asked
	}
	if e.proving == nil {
		e.proving = make(chan struct{})
		p.work.Go(func() { p.probe(e, prober) })
	}
	return append(asked, e.proving)
}

// probe asks one connection. A server that is busy with a call may have no time for anything else, so that its silence says
// nothing; that it cannot be reached does.
func (p *Pool) probe(e *entry, prober mcp.Prober) {
	ctx, cancel := context.WithTimeout(p.base, probeLimit)
	defer cancel()
	err := prober.Probe(ctx)

	p.mu.Lock()
	defer p.mu.Unlock()
	close(e.proving)
	e.proving = nil
	silent := err != nil && mcp.As(err).Kind == mcp.Interrupted
	if p.closed || silent && e.calls > 0 || p.judge(e, err) {
		return
	}
	if e.calls == 0 {
		p.finish(e)
	}
}
