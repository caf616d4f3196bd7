package call

import (
	"context"
	"sync"
	"time"
)

// stopwatch ends a call that takes too long. It stands still while a person is asked.
type stopwatch struct {
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	timer  *time.Timer
	left   time.Duration // guarded by mu; when it was started
	since  time.Time     // guarded by mu; when that was
	paused int           // guarded by mu; how many wait for a person
	over   bool          // guarded by mu; nobody needs it any more
}

// watch returns a context that ends after limit of running time, for a cause that says so. Stop the watch in the end.
func watch(ctx context.Context, limit time.Duration) (context.Context, *stopwatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &stopwatch{cancel: cancel, left: limit, since: time.Now()}
	w.timer = time.AfterFunc(limit, func() { cancel(timeout{limit}) })
	return ctx, w
}

func (w *stopwatch) stop() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.timer.Stop()
	w.cancel(nil)
}

func (w *stopwatch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused++; w.paused == 1 && w.timer.Stop() {
		w.left = max(0, w.left-time.Since(w.since))
	}
}

func (w *stopwatch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused--; w.paused == 0 && !w.over {
		w.since = time.Now()
		w.timer.Reset(w.left)
	}
}
