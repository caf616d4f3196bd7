package engine

import (
	"time"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	// stableAfter is how long a process has to survive with a recovered task until a further crash is no longer attributed to the task.
	stableAfter = 30 * time.Second
	// stableAfterAttach replaces stableAfter while the owner only waits for a call that runs in the pool.
	stableAfterAttach = time.Second
	// fewRecoveries is the highest recovery count that sets no timer, so that an ordinary crash costs no further commit.
	fewRecoveries = 1
)

// setStableTimer schedules the reset of the recovery count of a task that was recovered several times.
func (o *owner) setStableTimer() {
	switch {
	case o.state.GetRecoveries() <= fewRecoveries:
		if o.stableTimer != nil {
			o.stableTimer.Stop()
			o.stableTimer = nil
		}
	case o.stableTimer == nil:
		after := stableAfter
		if o.calling && o.attached {
			after = stableAfterAttach
		}
		o.stableTimer = time.AfterFunc(after, func() { o.deliver(item{input: flow.RecoverySettled{}, generation: anyGeneration}) })
	}
}

// settleRecovery resets the task's recovery count, because the process shuts down cleanly.
func (o *owner) settleRecovery() {
	if o.state.GetRecoveries() > 0 && !o.idle() {
		o.apply([]item{{input: flow.RecoverySettled{}, generation: o.generation}})
	}
}

// expired reports whether a wait's deadline has passed.
func (o *owner) expired() bool {
	d := deadline(o.state)
	return !d.IsZero() && !time.Now().Before(d)
}

// deadline returns the first deadline of a task's waits, or the zero time.
func deadline(c *storagev1.Checkpoint) time.Time {
	var first int64
	for _, w := range c.GetWaits() {
		if d := w.GetDeadline(); d != 0 && (first == 0 || d < first) {
			first = d
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return time.Unix(0, first)
}

// setRunTimer sets the timer for the end of the task's run time.
func (o *owner) setRunTimer() {
	limit := o.head.GetLimits().GetMaxRunTime()
	if o.callStopped = o.callStopped && o.calling; o.callStopped || limit <= 0 {
		return
	}
	remaining := max(time.Millisecond, time.Duration(limit-flow.RunTime(o.state, time.Now())))
	if o.runTimer == nil {
		o.runTimer = time.AfterFunc(remaining, func() { o.deliver(item{input: flow.Timeout{}, generation: anyGeneration}) })
	} else {
		o.runTimer.Reset(remaining)
	}
}
