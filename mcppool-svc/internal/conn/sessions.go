package conn

import (
	"context"
	"time"
)

// ReleaseSession ends a user's session and returns how many connections it held. Connections that others use stay; unused ones close
// after the idle timeout.
func (p *Pool) ReleaseSession(user, session string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for e := range p.leased() {
		if _, held := e.sessions[sessionKey{user, session}]; held {
			p.release(e, sessionKey{user, session}, time.Now())
			n++
		}
	}
	return n
}

// release ends a session's hold on a connection. A connection of that session alone closes with its last call. Called with
// mu held.
func (p *Pool) release(e *entry, h sessionKey, now time.Time) {
	delete(e.sessions, h)
	e.idle = now
	p.wake()
	if e.session != "" {
		p.retire(e)
	}
}

// Retire ends the use of a server's connections except those of one revision (empty: all): calls in flight finish, new
// ones get a new connection.
func (p *Pool) Retire(server, keep string) {
	p.retireWhere(func(e *entry) bool { return e.server == server && e.revision != keep })
}

// RetireUser does the same for one user's connections to a server.
func (p *Pool) RetireUser(server, user string) {
	p.retireWhere(func(e *entry) bool { return e.server == server && e.user == user })
}

func (p *Pool) retireWhere(match func(*entry) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.leased() {
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

// Run closes unused connections and suspends idle ones until ctx is done.
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

// failureMemory is how long the last failure of a connection is shown.
const failureMemory = time.Hour

func (p *Pool) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.leased() {
		for h, seen := range e.sessions {
			// An executor that died releases nothing.
			if now.Sub(seen) >= p.cfg.SessionTimeout && e.calls == 0 {
				p.release(e, h, now)
			}
		}
		if e.unused() && now.Sub(e.idle) >= p.cfg.IdleTimeout {
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
