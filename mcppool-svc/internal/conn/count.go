package conn

// Count says how many connections there are in each state: connecting, busy with calls, idle, or closing. All states are
// in it.
func (p *Pool) Count() map[string]int {
	n := map[string]int{"connecting": 0, "busy": 0, "idle": 0, "closing": 0}
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.live {
		switch {
		case e.closing:
			n["closing"]++
		case e.client == nil:
			n["connecting"]++
		case e.calls > 0:
			n["busy"]++
		default:
			n["idle"]++
		}
	}
	return n
}
