package gofunc

import (
	"context"
	"encoding/json"
	"sync"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// running is a call, and its function's context: what is told through it is told to who follows the call, until that has ended.
type running struct {
	context.Context
	raw json.RawMessage // what the function returned, once it has

	mu     sync.Mutex
	notify func(mcp.Notification) // guarded by mu; nil where nobody listens, and once the call has ended
}

// runningKey is what a call is found by in its context.
type runningKey struct{}

// Value implements context.Context.
func (r *running) Value(key any) any {
	if _, ours := key.(runningKey); ours {
		return r
	}
	return r.Context.Value(key)
}

func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = nil
}

// Notify tells who follows the call that ctx is of; nobody where it is of none.
func Notify(ctx context.Context, n mcp.Notification) {
	r, ok := ctx.Value(runningKey{}).(*running)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notify != nil {
		r.notify(n)
	}
}
