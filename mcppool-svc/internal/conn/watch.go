package conn

import (
	"math"
	"time"
)

const (
	// suspendAfter is how long a connection without a session may be idle before it is suspended, and suspendHeldAfter one with a session:
	// to resume takes a request or two, which a task between two calls should not wait for.
	suspendAfter, suspendHeldAfter = 15 * time.Second, 2 * time.Minute
	// sweepInterval is how often connections are checked.
	sweepInterval = 5 * time.Second
)

// Watched sets the test of whether a user watches for changes; an empty user is any. It is set before the pool is used, must not block,
// and must not call the pool.
func (p *Pool) Watched(watched func(user string) bool) { p.watched = watched }

// Wake resumes a user's suspended connections, so that they receive changes again.
func (p *Pool) Wake(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.leased() {
		if e.user == user || e.user == "" {
			e.resume()
		}
	}
}

// resume is called with the pool's mu held.
func (e *entry) resume() {
	if e.suspended {
		e.suspended = false
		e.client.Wake()
	}
}

// suspend makes an idle connection drop what can be had again, such as its stream of changes. Called with mu held.
func (p *Pool) suspend(e *entry, now time.Time) {
	after := suspendAfter
	if len(e.sessions) > 0 {
		after = suspendHeldAfter
	}
	if e.suspended || e.retired || e.client == nil || e.calls > 0 || now.Sub(e.idle) < after || p.watched != nil && p.watched(e.user) {
		return
	}
	e.suspended = e.client.Rest()
}

// Observe sets what is called when a user's connection to a server changes its state, or its server a list. It is set before the pool is
// used, and must not block.
func (p *Pool) Observe(changed func(server, user string)) { p.changed = changed }

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
