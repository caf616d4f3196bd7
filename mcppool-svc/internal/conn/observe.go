package conn

import (
	"math"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// Observe sets what is called when a user's connection to a server changes its state, or its server a list. It is set before the pool is
// used, and must not block.
func (p *Pool) Observe(changed func(server, user string)) { p.changed = changed }

// notify reports a change of a connection. It may be called with mu held.
func (p *Pool) notify(k key) {
	if p.changed != nil {
		p.changed(k.server, k.user)
	}
}

// observe forwards the change notifications of a connection.
func (p *Pool) observe(e *entry) {
	if n, ok := e.client.(mcp.Notifier); ok {
		n.OnChange(func() { p.notify(e.key) })
	}
}

// toolsVersion identifies the tools of a connection: it differs between connections and changes with the tools.
func (e *entry) toolsVersion() uint64 {
	return e.number<<32 | (e.client.ToolsVersion()+1)&math.MaxUint32
}
