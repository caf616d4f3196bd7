package registry

import "pawl.dev/mcppool-svc/internal/spec"

// All returns every server, of whoever, in no order.
func (r *Registry) All() []*spec.Server {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*spec.Server, 0, len(r.servers))
	for _, s := range r.servers {
		all = append(all, s)
	}
	return all
}
