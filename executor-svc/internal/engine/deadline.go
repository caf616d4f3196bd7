package engine

import (
	"time"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// expired says whether a question has been open for too long.
func (o *owner) expired() bool {
	d := deadline(o.state)
	return !d.IsZero() && !time.Now().Before(d)
}

// deadline is when the first of a task's questions lapses; zero where none does.
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

// setLapse sets the timer for the end of the task's run time.
func (o *owner) setLapse() {
	limit := o.head.GetLimits().GetMaxRunTime()
	if o.lapsed = o.lapsed && o.calling; o.lapsed || limit <= 0 {
		return
	}
	left := max(time.Millisecond, time.Duration(limit-flow.RunTime(o.state, time.Now())))
	if o.lapse == nil {
		o.lapse = time.AfterFunc(left, func() { o.put(item{input: flow.Lapsed{}, turn: anyTurn}) })
	} else {
		o.lapse.Reset(left)
	}
}
