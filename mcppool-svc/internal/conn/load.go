package conn

// Load is how full the pool is.
type Load struct {
	// States are the connections in each state: connecting, busy with calls, idle, or closing. All states are in it.
	States map[string]int
	// Used are those that count towards Limit.
	Used, Limit int
	// Waiting counts calls that wait for a connection, or for their turn on one.
	Waiting int
	// Refused counts connections refused because of a limit.
	Refused uint64
}

// Load returns the current load.
func (p *Pool) Load() Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := Load{
		States: map[string]int{"connecting": 0, "busy": 0, "idle": 0, "closing": 0},
		Limit:  p.cfg.MaxConnections, Refused: p.refused,
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
			l.Waiting += e.calls
		case e.calls > 0:
			l.States["busy"]++
		default:
			l.States["idle"]++
		}
		l.Used++
	}
	return l
}
