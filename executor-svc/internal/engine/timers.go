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
		if o.onlyAttached() {
			after = stableAfterAttach
		}
		o.stableTimer = time.AfterFunc(after, func() { o.deliver(item{input: flow.RecoverySettled{}, generation: noAction}) })
	}
}

// settleRecovery resets the task's recovery count, because the process shuts down cleanly.
func (o *owner) settleRecovery() {
	if o.state.GetRecoveries() > 0 && !o.idle() {
		o.apply([]item{{input: flow.RecoverySettled{}, generation: noAction}})
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

// onlyAttached reports whether the owner only waits for calls that run in the pool.
func (o *owner) onlyAttached() bool {
	for _, l := range o.state.GetLanes() {
		run := o.lanes[l.GetId()]
		if l.GetPhase() != storagev1.Phase_PHASE_WAIT && l.GetPhase() != storagev1.Phase_PHASE_IDLE && (run == nil || !run.calling || !run.attached) {
			return false
		}
	}
	return true
}

// setTimer sets the timer for the next timeout.
func (o *owner) setTimer() {
	switch next := o.untilTimeout(time.Now()); {
	case next < 0 && o.timer != nil:
		o.timer.Stop()
	case next < 0:
	case o.timer == nil:
		o.timer = time.AfterFunc(next, func() { o.deliver(item{input: flow.Timeout{}, generation: noAction}) })
	default:
		o.timer.Reset(next)
	}
}

// untilTimeout returns the time until a run time ends, of the task or of a lane, or until the deadline of a wait beside which other lanes run.
// It is negative if there is neither.
func (o *owner) untilTimeout(now time.Time) time.Duration {
	next := time.Duration(-1)
	add := func(remaining time.Duration) {
		if next < 0 || remaining < next {
			next = max(time.Millisecond, remaining)
		}
	}
	stopped := true // all running calls were stopped because a run time is over
	for _, l := range o.state.GetLanes() {
		if l.GetPhase() == storagev1.Phase_PHASE_WAIT || l.GetPhase() == storagev1.Phase_PHASE_IDLE {
			continue
		}
		run := o.lanes[l.GetId()]
		lane := run != nil && run.calling && run.callStopped
		stopped = stopped && lane
		if limit := l.GetMaxRunTime(); limit > 0 && l.GetRunSince() != 0 && !lane {
			add(time.Duration(limit - flow.RunTime(l, now)))
		}
	}
	if limit := o.head.GetLimits().GetMaxRunTime(); limit > 0 && !stopped {
		add(time.Duration(limit - flow.RunTime(o.state, now)))
	}
	if d := deadline(o.state); !d.IsZero() {
		add(d.Sub(now))
	}
	return next
}
