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
	// stallLimit is how long a server may take for each part of a large message, so that one that stops in the middle does not keep others from being
	// read. Then what was read of the message is dropped.
	stallLimit = 30 * time.Second
	// holdLimit is how long a large message counts after it was read, if its result is not acknowledged: it protects from clients that acknowledge
	// nothing. An executor acknowledges a result when it is stored. After holdLimit the result counts for the bound of results that are kept only.
	holdLimit = 2 * time.Minute
)

// Held is the part of a budget that a large message uses, until Release. Its methods may be called concurrently. A nil Held holds
// nothing.
type Held struct {
	mu      sync.Mutex
	holding *serve.Holding // guarded by mu
	expiry  *time.Timer
	drop    func() // guarded by mu; drops what was read of the message; nil once it was read completely
}

// Admit waits until a message of at most so many bytes fits into the user's part of the budget. It returns nil if ctx ends first.
func Admit(ctx context.Context, b *serve.Budget, user string, bytes int) *Held {
	holding, err := b.Acquire(ctx, user, int64(bytes))
	if err != nil {
		return nil
	}
	h := &Held{holding: holding}
	h.expiry = time.AfterFunc(stallLimit, h.expire)
	return h
}

// onStall sets the function that drops what was read of the message if the server stops in the middle.
func (h *Held) onStall(drop func()) {
	if h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.drop = drop
	}
}

// goesOn records that a further part of the message was read.
func (h *Held) goesOn() {
	if h != nil {
		h.expiry.Reset(stallLimit)
	}
}

func (h *Held) expire() {
	h.mu.Lock()
	drop := h.drop
	h.drop = nil
	h.mu.Unlock()
	if drop != nil {
		drop()
	}
	h.shrink(0)
}

// read records that a message of this size was read completely; 0 frees its part, because no receiver is left.
func (h *Held) read(bytes int) {
	if h != nil {
		h.onStall(nil)
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
