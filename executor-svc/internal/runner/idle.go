package runner

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// idleLimit is how long a lane is kept for the next task: while there is much to do, that comes at once.
	idleLimit = 2 * time.Second
	// mostIdle bounds the lanes that no task has.
	mostIdle = 256
)

// laneKey is whose calls a lane can carry: one user's, of one server, to one pool.
type laneKey struct{ user, mcp, pool string }

// idle keeps the lanes that no task has, for the next of the same user: it saves each task the opening and the end of a stream. They
// are streams on which nothing runs, and nothing is lost with one.
type idle struct {
	mu     sync.Mutex // guards what follows
	lanes  map[laneKey][]parked
	n      int
	timer  *time.Timer // set while there are any
	closed bool
}

type parked struct {
	*lane
	since time.Time
}

// take returns the lane that was used last, which nobody else has then; nil where there is none.
func (i *idle) take(k laneKey) *lane {
	i.mu.Lock()
	defer i.mu.Unlock()
	of := i.lanes[k]
	if len(of) == 0 {
		return nil
	}
	last := len(of) - 1
	l := of[last].lane
	of[last] = parked{}
	i.keep(k, of[:last])
	i.n--
	return l
}

// keep notes what is left of a key's lanes.
func (i *idle) keep(k laneKey, left []parked) {
	if len(left) == 0 {
		delete(i.lanes, k)
		return
	}
	i.lanes[k] = left
}

// park takes a lane that its task needs no more; false where it is not kept.
func (i *idle) park(k laneKey, l *lane) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || i.n >= mostIdle {
		return false
	}
	if i.lanes == nil {
		i.lanes = make(map[laneKey][]parked)
	}
	i.lanes[k] = append(i.lanes[k], parked{l, time.Now()})
	i.n++
	if i.timer == nil {
		i.timer = time.AfterFunc(idleLimit, i.sweep)
	}
	return true
}

// sweep ends the lanes that nobody wanted for a while.
func (i *idle) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	for _, l := range i.drain(time.Now().Add(-idleLimit)) {
		l.close()
		l.ends(ctx)
	}
}

// drain takes out the lanes that have been there since then or before.
func (i *idle) drain(then time.Time) (old []*lane) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k, of := range i.lanes {
		n := 0
		for n < len(of) && !of[n].since.After(then) {
			old = append(old, of[n].lane)
			n++
		}
		i.keep(k, slices.Delete(of, 0, n))
	}
	i.n -= len(old)
	if i.timer = nil; i.n > 0 && !i.closed {
		i.timer = time.AfterFunc(idleLimit, i.sweep)
	}
	return old
}

// Close ends the streams that no task has, and tells of the sessions that ended last. Sessions end their streams when they leave.
func (r *Runner) Close() {
	r.closeEndings()
	r.idle.mu.Lock()
	r.idle.closed = true
	if r.idle.timer != nil {
		r.idle.timer.Stop()
	}
	r.idle.mu.Unlock()
	for _, l := range r.idle.drain(time.Now()) {
		l.end()
	}
}
