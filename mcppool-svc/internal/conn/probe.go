package conn

import (
	"context"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
)

const (
	// probeAfter is how long nothing may have been heard over a connection before it is tried out.
	probeAfter = time.Minute
	// probeLimit is how long a sign of life may take.
	probeLimit = 5 * time.Second
)

// isStale says whether a connection that nobody else uses was idle for long, and that it is tried out now. Called by who just
// joined it.
func (p *Pool) isStale(e *entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.calls > 1 || time.Since(e.idle) < probeAfter {
		return false
	}
	e.idle = time.Now() // once for all who come meanwhile
	return true
}

// isDead tries a stale connection out. One that gives no sign of life makes way for another one: to find that out by a call
// would make the call's outcome unknown.
func (p *Pool) isDead(ctx context.Context, e *entry) bool {
	prober, ok := e.client.(mcp.Prober)
	if !ok || !p.isStale(e) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	err := prober.Probe(limited)
	if ctx.Err() != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.judge(e, err)
}

// judge says whether a probe was answered, and takes a connection out of circulation whose was not. Called with mu held.
func (p *Pool) judge(e *entry, err error) bool {
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
