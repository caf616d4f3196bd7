package conn

import (
	"context"
	"math"
	"time"
)

// ReleaseSession ends a user's session and returns how many connections it held. Connections for this session alone close after their last
// call; the other connections close after the idle timeout once they are unused.
func (p *Pool) ReleaseSession(user, session string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for e := range p.leasable() {
		if _, held := e.sessions[sessionKey{user, session}]; held {
			p.releaseFrom(e, sessionKey{user, session}, time.Now())
			n++
		}
	}
	return n
}

// releaseFrom removes a session from a connection. A connection for that session alone closes after its last call. Called with mu held.
func (p *Pool) releaseFrom(e *entry, s sessionKey, now time.Time) {
	delete(e.sessions, s)
	e.lastUsed = now
	p.wake()
	if e.session != "" {
		p.retire(e)
	}
}

// Retire stops leasing the connections to the server with a UID, except those of the revision keep (empty: none is kept), and forgets their
// failures. Calls in flight finish; new ones get a new connection.
func (p *Pool) Retire(uid, keep string) {
	p.retireWhere(func(e *entry) bool { return e.server == uid && e.revision != keep })
}

// RetireUser is Retire for all of one user's connections to a server.
func (p *Pool) RetireUser(uid, user string) {
	p.retireWhere(func(e *entry) bool { return e.server == uid && e.user == user })
}

func (p *Pool) retireWhere(match func(*entry) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.leasable() {
		if match(e) {
			p.retire(e)
		}
	}
	for k := range p.failed {
		if match(&entry{key: k}) {
			delete(p.failed, k)
		}
	}
}

// Run ends sessions after SessionTimeout, closes unused connections and suspends idle ones, until ctx is done.
func (p *Pool) Run(ctx context.Context) {
	tick := time.NewTicker(min(max(p.cfg.IdleTimeout/8, time.Millisecond), sweepInterval))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			p.sweep(now)
		case <-ctx.Done():
			return
		}
	}
}

// failureMemory is how long the last failure of a connection is kept.
const failureMemory = time.Hour

func (p *Pool) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.leasable() {
		for s, used := range e.sessions {
			// An executor that died does not release its sessions.
			if now.Sub(used) >= p.cfg.SessionTimeout && e.leases == 0 {
				p.releaseFrom(e, s, now)
			}
		}
		if e.unused() && now.Sub(e.lastUsed) >= p.cfg.IdleTimeout {
			p.retire(e)
		}
		p.suspend(e, now)
	}
	for k, f := range p.failed {
		if now.Sub(f.at) >= failureMemory {
			delete(p.failed, k)
		}
	}
}

const (
	// suspendAfter is how long a connection without a session may be idle before it is suspended. suspendHeldAfter is the time for a connection
	// with a session, whose next call should not wait for it to resume.
	suspendAfter, suspendHeldAfter = 15 * time.Second, 2 * time.Minute
	// sweepInterval is the longest time between two checks of the connections.
	sweepInterval = 5 * time.Second
)

// SetWatched sets the function that reports whether a user watches for changes (an empty user: whether any user does). Set it before the
// pool is used. It must not block and must not call the pool.
func (p *Pool) SetWatched(watched func(user string) bool) { p.watched = watched }

// Wake resumes the suspended connections that a user has or shares, so that they receive changes again.
func (p *Pool) Wake(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.leasable() {
		if e.user == user || e.user == "" {
			e.resume()
		}
	}
}

// resume ends a suspension. Called with the pool's mu held.
func (e *entry) resume() {
	if e.suspended {
		e.suspended = false
		e.client.Wake()
	}
}

// suspend makes a connection release resources that it can acquire again, such as its stream of changes, if it has been idle for long enough
// and its user does not watch for changes. Called with mu held.
func (p *Pool) suspend(e *entry, now time.Time) {
	after := suspendAfter
	if len(e.sessions) > 0 {
		after = suspendHeldAfter
	}
	if e.suspended || e.retired || e.client == nil || e.leases > 0 || now.Sub(e.lastUsed) < after || p.watched != nil && p.watched(e.user) {
		return
	}
	e.suspended = e.client.Rest()
}

// Observe sets the function that is called when a user's connection to a server changes its state, or the server changes a list. user is
// empty for a connection that all users share. Set it before the pool is used. It must not block.
func (p *Pool) Observe(changed func(uid, user string)) { p.changed = changed }

// notify reports a change of a connection. It may be called with mu held.
func (p *Pool) notify(k key) {
	if p.changed != nil {
		p.changed(k.server, k.user)
	}
}

// toolsVersion identifies the tools of a connection: it differs between connections and changes with the tools.
func (e *entry) toolsVersion() uint64 {
	return e.number<<32 | (e.client.ToolsVersion()+1)&math.MaxUint32
}
