package conn

import (
	"context"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// ReleaseSession ends a user's session and returns how many connections it held. Connections that others use stay; unused ones close
// after the idle timeout.
func (p *Pool) ReleaseSession(user, session string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, e := range p.entries {
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
	if !e.ofSession() {
		return
	}
	p.retire(e)
	if e.calls == 0 {
		p.finish(e)
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
	for _, e := range p.entries {
		if !match(e) {
			continue
		}
		p.retire(e)
		if e.calls == 0 {
			p.finish(e)
		}
	}
	for k := range p.failed {
		if match(&entry{key: k}) {
			delete(p.failed, k)
		}
	}
}

// State is the state of a user's connection to a server.
type State int

// The states.
const (
	Idle State = iota
	Connecting
	Ready
	Failed
)

// Status is a user's connection to a server, for people.
type Status struct {
	State State
	Since time.Time // of the state; zero if idle
	Err   error     // of the last failure
	Info  string    // name and version, as the server says
	// Capabilities are those that the server declares.
	Capabilities mcp.Capabilities
	// Tools changes with the server's tools and with the connection; 0 if there is none.
	Tools uint64
}

// Status reports on a user's connection to a server as it is now configured.
func (p *Pool) Status(server *registry.Server, user string) Status {
	k := keyOf(Use{Server: server, User: user})
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.anyOf(k, server.Isolation); e != nil {
		if e.client == nil {
			return Status{State: Connecting, Since: e.begun}
		}
		info := e.client.Info()
		return Status{State: Ready, Since: e.made, Info: info.String(), Capabilities: info.Capabilities, Tools: e.toolsVersion()}
	}
	if f := p.failed[k]; f != nil {
		return Status{State: Failed, Since: f.since, Err: f.err}
	}
	return Status{}
}

// anyOf is the connection of a key; of a user's sessions any one, best one that works. Called with mu held.
func (p *Pool) anyOf(k key, isolation registry.Isolation) *entry {
	found := p.first(k)
	if isolation != registry.PerTask {
		return found
	}
	for _, e := range p.entries {
		if e.at(0).failureKey() == k && (found == nil || found.client == nil) {
			found = e
		}
	}
	return found
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
	for _, e := range p.entries {
		for h, seen := range e.sessions {
			// An executor that died releases nothing.
			if now.Sub(seen) >= p.cfg.SessionTimeout && e.calls == 0 {
				p.release(e, h, now)
			}
		}
		if e.unused() && now.Sub(e.idle) >= p.cfg.IdleTimeout {
			p.retire(e)
			p.finish(e)
		}
		p.suspend(e, now)
	}
	for k, f := range p.failed {
		if now.Sub(f.at) >= failureMemory {
			delete(p.failed, k)
		}
	}
}
