package conn

import (
	"context"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
)

const (
	// probeAfter is how long a connection may be idle before it is probed ahead of its next use.
	probeAfter = time.Minute
	// probeTimeout bounds a probe.
	probeTimeout = 5 * time.Second
)

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
