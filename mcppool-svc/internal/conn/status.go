package conn

import (
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// State is the state of a user's connection to a server.
type State int

// The states.
const (
	Idle State = iota // not connected; the next use connects
	Connecting
	Ready
	Failed
)

// Status is a user's connection to a server, for people.
type Status struct {
	State State
	Since time.Time // of the state; zero if idle
	Err   error     // why it failed; nil in other states
	Info  string    // the server's name and version
	// Capabilities are those that the server declares.
	Capabilities []string
	// Tools changes with the server's tools and with the connection; 0 if there is no connection.
	Tools uint64
}

// Status returns the status of a user's connection to a server as it is configured now.
func (p *Pool) Status(server *registry.Server, user string) Status {
	k := keyOf(Use{Server: server, User: user})
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.anyOf(k, server.Isolation); e != nil {
		if e.client == nil {
			return Status{State: Connecting, Since: e.begun}
		}
		info := e.client.Info()
		return Status{State: Ready, Since: e.connectedAt, Info: info.String(), Capabilities: info.Capabilities, Tools: e.toolsVersion()}
	}
	if f := p.failed[k]; f != nil {
		return Status{State: Failed, Since: f.since, Err: f.err}
	}
	return Status{}
}

// anyOf returns the first connection of a key, or nil. If each task has its own connections, it returns one of the user's, preferably one
// that works. Called with mu held.
func (p *Pool) anyOf(k key, isolation registry.Isolation) *entry {
	found := p.first(k)
	if isolation != registry.PerTask {
		return found
	}
	for e := range p.leasable() {
		if e.withNth(0).failureKey() == k && (found == nil || found.client == nil) {
			found = e
		}
	}
	return found
}

// Log is the stderr of a user's connection to a server, or of the last failed one with its error.
type Log struct {
	Stderr    mcp.Stderr
	Time      time.Time // when the connection was made or last failed; zero if there was none
	Connected bool
	Err       error // why it failed
}

// Log returns the log of a user's connection to a server as it is configured now, or of the last failed one. The stderr of a shared
// connection is left out, because it may be about other users.
func (p *Pool) Log(server *registry.Server, user string) Log {
	k := keyOf(Use{Server: server, User: user})
	p.mu.Lock()
	defer p.mu.Unlock()
	var log Log
	if e := p.anyOf(k, server.Isolation); e != nil && e.client != nil {
		log = Log{Stderr: e.client.Stderr(), Time: e.connectedAt, Connected: true}
	} else if f := p.failed[k]; f != nil {
		log = Log{Stderr: f.stderr, Time: f.at, Err: f.err}
	}
	if server.Isolation == registry.Shared {
		log.Stderr = mcp.Stderr{}
	}
	return log
}

// Load describes how full the pool is.
type Load struct {
	// States counts the connections in each state: connecting, busy (leased), idle, closing. It has an entry for each state.
	States map[string]int
	// Used is the number of connections that count towards Limit: all but those that are closing.
	Used, Limit int
	// Waiting is the number of uses that wait for a connection, or for their turn on one.
	Waiting int
	// Refused is the number of uses refused because of a limit, since the start.
	Refused uint64
}

// Load returns the current load.
func (p *Pool) Load() Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := Load{
		States: map[string]int{"connecting": 0, "busy": 0, "idle": 0, "closing": 0},
		Limit:  p.cfg.MaxConnections, Refused: p.refused.Load(),
	}
	for _, queue := range p.queues {
		l.Waiting += len(queue)
	}
	for e := range p.live {
		switch {
		case e.closing:
			l.States["closing"]++
			continue
		case e.client == nil:
			l.States["connecting"]++
			l.Waiting += e.leases
		case e.leases > 0:
			l.States["busy"]++
		default:
			l.States["idle"]++
		}
		l.Used++
	}
	return l
}
