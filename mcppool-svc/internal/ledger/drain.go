package ledger

import "context"

// Drain refuses new calls and returns when the running ones have ended. When ctx is done it stops them first, for this
// cause.
func (l *Ledger) Drain(ctx context.Context, cause error) {
	l.mu.Lock()
	l.draining = true
	l.checkDrained()
	l.mu.Unlock()
	select {
	case <-l.drained:
		return
	case <-ctx.Done():
	}
	l.mu.Lock()
	for _, c := range l.calls {
		if c.cancel != nil {
			c.cancel(cause)
		}
	}
	l.mu.Unlock()
	<-l.drained
}

// checkDrained is called with mu held.
func (l *Ledger) checkDrained() {
	if !l.draining || l.running > 0 {
		return
	}
	select {
	case <-l.drained:
	default:
		close(l.drained)
	}
}
