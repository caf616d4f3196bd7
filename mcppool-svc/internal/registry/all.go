package registry

// All returns the servers of all owners, in no order.
func (r *Registry) All() []*Server {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*Server, 0, len(r.servers))
	for _, s := range r.servers {
		all = append(all, s)
	}
	return all
}
