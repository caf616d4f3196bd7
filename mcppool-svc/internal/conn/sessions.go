package conn

import (
	"context"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// ReleaseSession says that a user's session needs its connections no more, and returns how many it had. What others use
// stays; what nobody uses is closed once it was idle for long enough.
func (p *Pool) ReleaseSession(user, session string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, e := range p.entries {
		if _, held := e.sessions[hold{user, session}]; held {
			p.release(e, hold{user, session}, time.Now())
			n++
		}
	}
	return n
}

// release takes one session's hold off a connection. One that was that session's alone closes with its last call. Called with
// mu held.
func (p *Pool) release(e *entry, h hold, now time.Time) {
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

// State is where a user's connection to a server is.
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
	Since time.Time // when it became that; zero where it is idle
	Err   error     // of the last failure
	Info  string    // what the server says it is
	// Capabilities are what the server says that it offers.
	Capabilities mcp.Capabilities
	// Tools changes with the server's tools, and with the connection; 0 where there is none.
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
		if e.at(0).place() == k && (found == nil || found.client == nil) {
			found = e
		}
	}
	return found
}

// Run closes connections that nobody needs, and lets others rest, until ctx is done.
func (p *Pool) Run(ctx context.Context) {
	tick := time.NewTicker(min(max(p.cfg.IdleTimeout/8, time.Millisecond), restTick))
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

// failureMemory is how long the last failure of a connection that nobody asks for is shown.
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
		p.rest(e, now)
	}
	for k, f := range p.failed {
		if now.Sub(f.at) >= failureMemory {
			delete(p.failed, k)
		}
	}
}
