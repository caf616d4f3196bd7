package ledger

import "context"

// Drain refuses new calls and returns when the running ones have ended and, where fetched is set, somebody has got what each
// named one came to. When ctx is done it stops them first, for this cause, and waits for nobody to fetch anything.
func (l *Ledger) Drain(ctx context.Context, fetched bool, cause error) {
	l.mu.Lock()
	l.draining, l.hurry = true, !fetched
	l.checkDrained()
	l.mu.Unlock()
	select {
	case <-l.drained:
		return
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.hurry = true
	for _, c := range l.calls {
		if c.cancel != nil {
			c.cancel(cause)
		}
	}
	l.checkDrained()
	l.mu.Unlock()
	<-l.drained
}

// Fetched says that somebody got what a call came to.
func (l *Ledger) Fetched(c *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle(c)
}

// settle stops waiting for somebody to fetch what a call came to. Called with mu held.
func (l *Ledger) settle(c *Call) {
	if c.awaited {
		c.awaited = false
		l.awaited--
		l.checkDrained()
	}
}

// checkDrained is called with mu held.
func (l *Ledger) checkDrained() {
	if !l.draining || l.running > 0 || l.awaited > 0 && !l.hurry {
		return
	}
	select {
	case <-l.drained:
	default:
		close(l.drained)
	}
}
