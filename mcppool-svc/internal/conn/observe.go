package conn

import (
	"math"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// Observe sets who is told when something about a user's connection to a server changes: its state, or what the server
// offers. It is set before the pool is used, and must not block.
func (p *Pool) Observe(changed func(server, user string)) { p.changed = changed }

// tell says that something about a connection changed. It may be called with mu held.
func (p *Pool) tell(k key) {
	if p.changed != nil {
		p.changed(k.server, k.user)
	}
}

// attend makes a connection's own words known.
func (p *Pool) attend(e *entry) {
	if n, ok := e.client.(mcp.Notifier); ok {
		n.OnChange(func() { p.tell(e.key) })
	}
}

// toolsVersion tells the tools of a connection from those of another one, and from what they were before.
func (e *entry) toolsVersion() uint64 {
	return e.number<<32 | (e.client.ToolsVersion()+1)&math.MaxUint32
}
