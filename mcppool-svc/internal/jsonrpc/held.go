package jsonrpc

import (
	"context"
	"sync"
	"time"

	"pawl.dev/services/serve"
)

const (
	// largeMessage is the size from which messages count for the budget.
	largeMessage = 1 << 20
	// holdLimit is how long a message may hold a part of the budget until it is read, and then until its result is acknowledged, so that neither a
	// server that stops in the middle of a message nor a client that acknowledges nothing keeps other messages from being read for longer.
	holdLimit = 10 * time.Second
)

// Held is the part of a budget that a large message uses, until Release or holdLimit. Its methods may be called concurrently. A nil Held holds
// nothing.
type Held struct {
	mu      sync.Mutex
	holding *serve.Holding // guarded by mu
	expiry  *time.Timer
}

// Admit waits until a message of at most so many bytes fits into the user's part of the budget. It returns nil if ctx ends first.
func Admit(ctx context.Context, b *serve.Budget, user string, bytes int) *Held {
	holding, err := b.Acquire(ctx, user, int64(bytes))
	if err != nil {
		return nil
	}
	h := &Held{holding: holding}
	h.expiry = time.AfterFunc(holdLimit, func() { h.shrink(0) })
	return h
}

// read records the size of a message that was read completely; 0 if nobody receives the message.
func (h *Held) read(bytes int) {
	if h != nil {
		h.expiry.Reset(holdLimit)
		h.shrink(bytes)
	}
}

// Release gives everything back. Further calls do nothing.
func (h *Held) Release() {
	if h != nil {
		h.expiry.Stop()
		h.shrink(0)
	}
}

// shrink gives all but so many bytes back.
func (h *Held) shrink(to int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holding.Shrink(int64(to))
}
