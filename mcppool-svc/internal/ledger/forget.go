package ledger

import (
	"context"
	"time"
)

// sweepEvery is how often memory is given back that nobody's call gives back.
const sweepEvery = time.Minute

// Ack forgets what a user's calls came to, and returns how many of them there were. A running one goes on, and is
// forgotten when it ends.
func (l *Ledger) Ack(user string, ids []string) int {
	if len(ids) == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, id := range ids {
		c := l.calls[keyOf(user, id)]
		switch {
		case c == nil:
			continue
		case c.cancel != nil:
			c.acked = true
		default:
			l.forget(c, acked)
		}
		n++
	}
	return n
}

// forget leaves nothing of a call but its fate. Called with mu held.
func (l *Ledger) forget(c *Call, f fate) {
	delete(l.calls, c.key)
	l.settle(c)
	l.graves.bury(c.key, f)
	if c.slot.Taken() {
		l.finished.remove(c)
		l.kept.Remove(&c.slot)
	}
}

// expire forgets what waited for too long. Called with mu held.
func (l *Ledger) expire() {
	if l.finished.first != nil {
		l.expireAt(l.cfg.Now())
	}
}

func (l *Ledger) expireAt(now time.Time) {
	for c := l.finished.first; c != nil && now.Sub(c.ended) >= l.cfg.Memory; c = l.finished.first {
		l.forget(c, expired)
	}
}

// evict makes room: who keeps most loses the oldest. Called with mu held.
func (l *Ledger) evict() {
	for slot, over := l.kept.Over(); over; slot, over = l.kept.Over() {
		l.forget(slot.Value, evicted)
	}
}

// Run forgets what is due also where nothing is called, until ctx is done.
func (l *Ledger) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.mu.Lock()
			l.expire()
			l.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}
