package runner

import (
	"context"
	"slices"
	"sync"
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
)

const (
	// endingDelay is how long the pool may not know that a session has ended (A23): while there is much to do, a call of the same user
	// takes it along before that.
	endingDelay = 250 * time.Millisecond
	// mostEndings bounds the sessions of whose end the pool was not told.
	mostEndings = 1000
	// mostTaken is how many of them one call takes along.
	mostTaken = 100
)

// ending is the end of a session: the pool is to release it, and may forget the calls.
type ending struct {
	user, session string
	acks          []string
	since         time.Time
}

// endings are those that the pool was not told of yet. A request of its own for each would cost as much as two of its calls.
type endings struct {
	mu     sync.Mutex // guards what follows
	byUser map[string][]ending
	n      int
	timer  *time.Timer // set while there are any, and for a while afterwards
	closed bool

	telling sync.Mutex // held while the pool is told
}

// put keeps an ending for the next call of its user, or for tell when there is none soon; false where it is not kept.
func (e *endings) put(end ending, tell func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.n >= mostEndings {
		return false
	}
	if e.byUser == nil {
		e.byUser = make(map[string][]ending)
	}
	end.since = time.Now()
	e.byUser[end.user] = append(e.byUser[end.user], end)
	e.n++
	if e.timer == nil {
		e.timer = time.AfterFunc(endingDelay, tell)
	}
	return true
}

// take returns what a call of a user can take along that has so many acknowledgements already.
func (e *endings) take(user string, acks int) []ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	of, n := e.byUser[user], 0
	for n < len(of) && n < mostTaken && acks+len(of[n].acks) <= mostAcks {
		acks += len(of[n].acks)
		n++
	}
	if n < len(of) {
		e.byUser[user] = of[n:]
	} else {
		delete(e.byUser, user)
	}
	e.n -= n
	return of[:n:n]
}

// drain takes out those that have been there since then or before, and sees to the others when it is their time.
func (e *endings) drain(then time.Time, tell func()) (old []ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for user, of := range e.byUser {
		young := func(end ending) bool { return end.since.After(then) }
		n := slices.IndexFunc(of, young)
		if n < 0 {
			delete(e.byUser, user)
			n = len(of)
		} else {
			e.byUser[user] = of[n:]
		}
		old = append(old, of[:n]...)
	}
	e.n -= len(old)
	if e.timer = nil; e.n > 0 && !e.closed {
		e.timer = time.AfterFunc(endingDelay, tell)
	}
	return old
}

// add lets a call take endings along.
func (r *request) add(ended []ending) {
	for _, end := range ended {
		r.msg.EndedSessionIds = append(r.msg.EndedSessionIds, end.session)
		r.req.AckCallIds = append(r.req.AckCallIds, end.acks...)
	}
}

// ended has the pool told of a session's end: soon or, where too many ended, now.
func (r *Runner) ended(ctx context.Context, end ending) {
	if !r.endings.put(end, r.tellEndings) {
		r.tell(ctx, end)
	}
}

// again has the pool told once more of what a call took along that may not have come there; to hear of it twice does no harm.
func (r *Runner) again(ctx context.Context, ended []ending) {
	for _, end := range ended {
		r.ended(context.WithoutCancel(ctx), end)
	}
}

// tellEndings tells of the sessions that no call took along.
func (r *Runner) tellEndings() {
	r.endings.telling.Lock()
	defer r.endings.telling.Unlock()
	r.tellAll(r.endings.drain(time.Now().Add(-endingDelay/2), r.tellEndings))
}

// closeEndings tells of all sessions.
func (r *Runner) closeEndings() {
	r.endings.mu.Lock()
	r.endings.closed = true
	if r.endings.timer != nil {
		r.endings.timer.Stop()
	}
	r.endings.mu.Unlock()
	r.endings.telling.Lock() // nobody tells of anything any more when this returns
	defer r.endings.telling.Unlock()
	r.tellAll(r.endings.drain(time.Now(), nil))
}

func (r *Runner) tellAll(ended []ending) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	for _, end := range ended {
		r.tell(ctx, end)
	}
}

func (r *Runner) tell(ctx context.Context, end ending) {
	ctx, cancel := context.WithTimeout(identity.OnBehalfOf(ctx, end.user), leaveLimit)
	defer cancel()
	_, err := r.pool.ReleaseSession(ctx, &mcppoolv1.ReleaseSessionRequest{SessionId: end.session, AckCallIds: end.acks})
	if err != nil {
		r.log.WarnContext(ctx, "telling the pool what ended", "task_id", end.session, "error", err)
	}
}

// releasedLate says whether the pool may hear late that the session has ended: if it said so of each server.
func (t *toolset) releasedLate() bool {
	return t != nil && len(t.lists) > 0 && !slices.ContainsFunc(t.lists, func(l *list) bool { return !l.isDone() || l.err != nil || !l.lateRelease })
}
