package inflight

import "context"

// Drain refuses new calls and returns when the running ones have ended and, if fetched is set, the result of each named call was
// sent to a client. When ctx is done, it cancels the running calls with cause and no longer waits for results to be fetched.
func (c *Calls) Drain(ctx context.Context, fetched bool, cause error) {
	c.mu.Lock()
	c.draining, c.hurry = true, !fetched
	c.checkDrained()
	c.mu.Unlock()
	select {
	case <-c.drained:
		return
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.hurry = true
	for _, call := range c.calls {
		if call.cancel != nil {
			call.cancel(cause)
		}
	}
	c.checkDrained()
	c.mu.Unlock()
	<-c.drained
}

// Fetched records that the result of a call was sent to a client.
func (c *Calls) Fetched(call *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetched(call)
}

// fetched is called with mu held.
func (c *Calls) fetched(call *Call) {
	if call.unfetched {
		call.unfetched = false
		c.unfetched--
		c.checkDrained()
	}
}

// checkDrained is called with mu held.
func (c *Calls) checkDrained() {
	if !c.draining || c.running > 0 || c.unfetched > 0 && !c.hurry {
		return
	}
	select {
	case <-c.drained:
	default:
		close(c.drained)
	}
}
