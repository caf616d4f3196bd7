package conn

import (
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
)

const (
	// restAfter is how long a connection that no session holds stays as it is without a call, and restHeld one that is held: to begin
	// again takes a request or two, which a task between two calls had better not wait for.
	restAfter, restHeld = 15 * time.Second, 2 * time.Minute
	// restTick is how often that is looked at.
	restTick = 5 * time.Second
)

// Attended sets how to find out whether a user wants to hear of changes as they come; an empty user is any. It is set before the
// pool is used, must not block, and must not call the pool.
func (p *Pool) Attended(attends func(user string) bool) { p.attends = attends }

// Wake lets a user's connections tell of changes again, of which many rest.
func (p *Pool) Wake(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if e.user == user || e.user == "" {
			e.awaken()
		}
	}
}

// awaken is called with the pool's mu held.
func (e *entry) awaken() {
	if e.resting {
		e.resting = false
		e.client.(mcp.Rester).Wake() // it did rest
	}
}

// rest lets a connection rest that nobody needs now. Called with mu held.
func (p *Pool) rest(e *entry, now time.Time) {
	after := restAfter
	if len(e.sessions) > 0 {
		after = restHeld
	}
	if e.resting || e.retired || e.client == nil || e.calls > 0 || now.Sub(e.idle) < after || p.attends != nil && p.attends(e.user) {
		return
	}
	if r, ok := e.client.(mcp.Rester); ok {
		e.resting = r.Rest()
	}
}
