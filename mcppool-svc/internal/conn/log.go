package conn

import (
	"time"

	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/mcppool-svc/internal/upstream"
)

// Log is what a user's connection to a server said beside the protocol.
type Log struct {
	Stderr    upstream.Stderr
	Time      time.Time // when the connection was made or last failed; zero where there was none
	Connected bool
	Err       error // why it is not connected, where it failed
}

// Log returns what is kept of a user's connection to a server as it is now configured: of the living one, else of the last that
// failed.
func (p *Pool) Log(server *spec.Server, user string) Log {
	// Not keyOf: what the connection of all users says may be about others, and is nobody's to read.
	k := key{server: server.UID, user: user, revision: server.Revision()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.anyOf(k, server.Isolation); e != nil && e.client != nil {
		return Log{Stderr: upstream.StderrOf(e.client), Time: e.made, Connected: true}
	}
	if f := p.failed[k]; f != nil {
		return Log{Stderr: f.stderr, Time: f.at, Err: f.err}
	}
	return Log{}
}
