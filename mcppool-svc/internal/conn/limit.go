package conn

import (
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// limit bounds the connections for which counts returns true.
type limit struct {
	most   int // 0: no limit
	counts func(*entry) bool
	who    string // subject and verb of the message, such as: you have
	advice string
}

// used returns the number of connections that count towards a limit. Those that are closing do not: closing is bounded in time. Called with
// mu held.
func (p *Pool) used(l limit) (n int) {
	for e := range p.live {
		if !e.closing && l.counts(e) {
			n++
		}
	}
	return n
}

// limits returns the limits on a new connection, the narrowest first, so that a user over their own limit does not evict connections of
// others.
func (p *Pool) limits(k key, server *registry.Server) []limit {
	all := []limit{
		{p.cfg.MaxPerUser, func(e *entry) bool { return e.user == k.user }, "you have", "end a task, or try again later"},
		{
			server.MaxConnections, func(e *entry) bool { return e.server == k.server }, "MCP server " + server.ID + " has",
			"try again later, or ask an operator to raise its max_connections",
		},
		{p.cfg.MaxConnections, func(*entry) bool { return true }, "the pool has", "end a task, or try again later"},
	}
	if k.user == "" {
		all = all[1:] // a shared connection counts towards no user's limit
	}
	return all
}

// makeRoom closes an unused connection for each limit that is reached, or returns an error if none is unused. Called with mu held.
func (p *Pool) makeRoom(k key, server *registry.Server) error {
	for _, l := range p.limits(k, server) {
		n := p.used(l)
		if l.most == 0 || n < l.most || p.evict(l.counts) {
			continue
		}
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"%s %d MCP connections in use, which is the limit; %s", l.who, n, l.advice).
			With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(retryAfter)
	}
	return nil
}

// MayReleaseLate reports whether the release of a user's session may be delayed: it closes no connection, and less than half of each limit is
// used.
func (p *Pool) MayReleaseLate(server *registry.Server, user string) bool {
	if server.Isolation == registry.PerTask {
		return false
	}
	k := keyOf(Use{Server: server, User: user})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.limits(k, server) {
		if l.most > 0 && 2*len(p.live) >= l.most && 2*p.used(l) >= l.most { // len(p.live) is at least used, and cheaper
			return false
		}
	}
	return true
}

// evict closes the qualifying connection that has been idle for longest. It returns false if none qualifies. Called with mu held.
func (p *Pool) evict(qualifies func(*entry) bool) bool {
	var oldest *entry
	for e := range p.leasable() {
		if e.unused() && qualifies(e) && (oldest == nil || e.lastUsed.Before(oldest.lastUsed)) {
			oldest = e
		}
	}
	if oldest == nil {
		return false
	}
	p.retire(oldest)
	return true
}

// unused reports whether a connection is established and has no leases and no sessions. Called with the pool's mu held.
func (e *entry) unused() bool {
	return e.client != nil && e.leases == 0 && len(e.sessions) == 0
}
