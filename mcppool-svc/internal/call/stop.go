package call

import (
	"context"
	"sync"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/humantime"
)

// timer ends a call that takes too long. It is paused while a person or a model is asked.
type timer struct {
	cancel context.CancelCauseFunc // of the call
	limit  time.Duration
	timer  *time.Timer

	mu      sync.Mutex
	left    time.Duration // guarded by mu; as of since
	since   time.Time     // guarded by mu
	paused  int           // guarded by mu; how many wait
	stopped bool          // guarded by mu
}

// start makes the timer end the call after limit of running time. Stop it when the call has ended.
func (t *timer) start(cancel context.CancelCauseFunc, limit time.Duration) {
	t.cancel, t.limit, t.left, t.since = cancel, limit, limit, time.Now()
	t.mu.Lock() // it may expire at once
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(limit, t.expire)
}

func (t *timer) expire() {
	t.mu.Lock()
	stopped := t.stopped
	t.mu.Unlock()
	if !stopped {
		t.cancel(timeout("the tool did not answer within " + humantime.Text(t.limit) + "; it may still have run. Raise the server's call_timeout for slow tools"))
	}
}

func (t *timer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}

func (t *timer) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paused++; t.paused == 1 && t.timer.Stop() {
		t.left = max(0, t.left-time.Since(t.since))
	}
}

func (t *timer) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paused--; t.paused == 0 && !t.stopped {
		t.since = time.Now()
		t.timer.Reset(t.left)
	}
}

// timeout is the cancellation cause of a request that exceeded its time limit.
type timeout string

func (t timeout) Error() string { return string(t) }

// Unwrap makes it a deadline that passed.
func (timeout) Unwrap() error { return context.DeadlineExceeded }

// Cancel asks a user's running call to stop; false if no call with that id runs.
func (c *Caller) Cancel(user, callID, reason string) bool {
	return c.calls.Cancel(user, callID, cancelled{reason})
}

// Drain refuses new calls and returns when the running ones have ended and, if fetched is set, their results were sent to clients.
// Calls still running when ctx is done are cancelled.
func (c *Caller) Drain(ctx context.Context, fetched bool) {
	c.calls.Drain(ctx, fetched, mcp.ErrStopping)
}

// cancelled is the cancellation cause of a call that a client cancelled.
type cancelled struct{ reason string }

func (c cancelled) Error() string {
	if c.reason == "" {
		return "the call was cancelled"
	}
	return "the call was cancelled: " + c.reason
}
