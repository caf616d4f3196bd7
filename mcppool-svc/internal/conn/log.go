package conn

import (
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// Log is what a user's connection to a server wrote beside the protocol.
type Log struct {
	Stderr    mcp.Stderr
	Time      time.Time // when the connection was made or last failed; zero if there was none
	Connected bool
	Err       error // why it failed
}

// Log returns the log of a user's connection to a server as it is configured now, or of the last failed one. A shared connection may have
// written about other users, so its stderr is left out.
func (p *Pool) Log(server *registry.Server, user string) Log {
	k := keyOf(Use{Server: server, User: user})
	p.mu.Lock()
	defer p.mu.Unlock()
	var log Log
	if e := p.anyOf(k, server.Isolation); e != nil && e.client != nil {
		log = Log{Stderr: mcp.StderrOf(e.client), Time: e.made, Connected: true}
	} else if f := p.failed[k]; f != nil {
		log = Log{Stderr: f.stderr, Time: f.at, Err: f.err}
	}
	if server.Isolation == registry.Shared {
		log.Stderr = mcp.Stderr{}
	}
	return log
}
