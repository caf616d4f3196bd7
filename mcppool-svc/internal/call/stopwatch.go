package call

import (
	"context"
	"sync"
	"time"
)

// stopwatch ends a call that takes too long. It stands still while a person is asked.
type stopwatch struct {
	cancel context.CancelCauseFunc // of the call
	limit  time.Duration
	timer  *time.Timer

	mu     sync.Mutex
	left   time.Duration // guarded by mu; when it was started
	since  time.Time     // guarded by mu; when that was
	paused int           // guarded by mu; how many wait for a person
	over   bool          // guarded by mu; nobody needs it any more
}

// start lets it end the call after limit of running time, for a cause that says so. Stop it in the end.
func (w *stopwatch) start(cancel context.CancelCauseFunc, limit time.Duration) {
	w.cancel, w.limit, w.left, w.since = cancel, limit, limit, time.Now()
	w.mu.Lock() // it may be too late at once
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(limit, w.expire)
}

func (w *stopwatch) expire() {
	w.mu.Lock()
	over := w.over
	w.mu.Unlock()
	if !over {
		w.cancel(timeout{w.limit})
	}
}

func (w *stopwatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
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
