package ledger

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/fair"
	"pawl.dev/services/errs"
)

// retryAfter is when to come back to a ledger that is full.
const retryAfter = time.Second

// Ledger is safe for concurrent use. Its errors are *errs.Error and say what is known of the call's outcome.
type Ledger struct {
	cfg Config
	id  string // of this pool

	mu       sync.Mutex
	calls    map[key]*Call      // guarded by mu; running and finished
	finished ends               // guarded by mu
	kept     *fair.Shelf[*Call] // guarded by mu; the same, by user
	running  int                // guarded by mu
	users    map[string]int     // guarded by mu; running calls by user
	graves   *graveyard         // guarded by mu
	fence    *fence             // guarded by mu
	refused  uint64             // guarded by mu; calls
	awaited  int                // guarded by mu; finished calls that nobody has fetched
	draining bool               // guarded by mu
	hurry    bool               // guarded by mu; draining waits for nobody to fetch anything
	drained  chan struct{}      // closed when draining and nothing runs
}

// New makes a ledger for the pool of an id that no other pool ever has.
func New(cfg Config, pool string) *Ledger {
	cfg = cfg.withDefaults()
	return &Ledger{
		cfg: cfg, id: pool, calls: make(map[key]*Call), kept: fair.New[*Call](cfg.MaxFinished, cfg.MaxFinishedBytes), users: make(map[string]int),
		graves: newGraveyard(cfg.MaxTombstones), fence: newFence(cfg.MaxSessions), drained: make(chan struct{}),
	}
}

// Start is what begins a call.
type Start struct {
	User, ID string // the id: what the caller chose, or Unnamed
	Hashes   []Hash // of the request; several where it can be written in several ways
	Session  string // may be empty
	Epoch    uint64 // of the session's owner
	Cancel   context.CancelCauseFunc
}

// Begin enters a call. Where one of that id is known, that one is returned and mine is false: follow it, do not make the
// call. Who began a call must End it.
func (l *Ledger) Begin(s Start) (c *Call, mine bool, err error) {
	k := keyOf(s.User, s.ID)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if !l.fence.pass(s.User, s.Session, s.Epoch) {
		return nil, false, stale(s.Session).With(errs.OutcomeKey, l.outcome(k))
	}
	if c := l.calls[k]; c != nil {
		if !c.is(s.Hashes) {
			return nil, false, reused(s.ID).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
		}
		return c, false, nil
	}
	if f := l.graves.fates[k]; f != unknown {
		return nil, false, errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
			"the call %.100q was not made: %s; name another attempt otherwise", s.ID, f.story()).With(errs.OutcomeKey, f.outcome())
	}
	if err := l.admit(s.User); err != nil {
		l.refused++
		return nil, false, err
	}
	c = &Call{key: k, user: s.User, named: !isUnnamed(s.ID), hashes: s.Hashes, cancel: s.Cancel}
	l.enter(c)
	return c, true, nil
}

// outcome is what is known of an id's effect. Called with mu held.
func (l *Ledger) outcome(k key) string {
	if l.calls[k] != nil {
		return errs.OutcomeUnknown
	}
	if f := l.graves.fates[k]; f != unknown {
		return f.outcome()
	}
	if l.graves.never(k) {
		return errs.OutcomeNotExecuted
	}
	return errs.OutcomeUnknown
}

// admit refuses a call that there is no room for. Called with mu held.
func (l *Ledger) admit(user string) error {
	refuse := func(format string, args ...any) error {
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED, format, args...).
			With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(retryAfter)
	}
	switch {
	case l.draining:
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
			"the MCP pool is stopping; try again later").With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	case l.users[user] >= l.cfg.MaxRunningPerUser:
		return refuse("%d tool calls of yours are running, which is the limit; wait for one, or cancel one", l.users[user])
	case l.running >= l.cfg.MaxRunning:
		return refuse("the pool runs %d tool calls, which is the limit; try again later", l.running)
	}
	return nil
}

// End says how a call ended, to those who follow it and those who ask later.
func (l *Ledger) End(c *Call, end End) {
	size, now := end.size(), l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	c.finish(end)
	c.cancel = nil // it holds on to the request
	l.running--
	if l.users[c.user]--; l.users[c.user] == 0 {
		delete(l.users, c.user)
	}
	l.expireAt(now)
	defer l.checkDrained()
	switch {
	case !c.named:
		delete(l.calls, c.key)
	case c.nothingLearnt(end):
		l.forget(c, unproven)
	case c.acked:
		l.forget(c, acked)
	case size > l.cfg.MaxFinishedBytes:
		l.forget(c, evicted) // it would drive out all others
	default:
		c.ended = now
		l.finished.push(c)
		l.kept.AddAt(&c.slot, c.user, size, c)
		c.awaited = true
		l.awaited++
		l.evict()
	}
}

// Cancel stops a user's running call; false where there is none of that id. One that is not known was given up before it
// came: it is refused from then on.
func (l *Ledger) Cancel(user, id string, cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := keyOf(user, id)
	c := l.calls[k]
	if c == nil {
		if l.graves.fates[k] == unknown {
			l.bar(k, id, cancelled)
		}
		return false
	}
	if c.cancel == nil {
		return false
	}
	c.cancel(cause)
	return true
}

// Followers is how many streams follow a user's call.
func (l *Ledger) Followers(user, id string) int {
	l.mu.Lock()
	c := l.calls[keyOf(user, id)]
	l.mu.Unlock()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.followers)
}

// Load is how much of what there may be there is.
type Load struct {
	Running, Limit int    // calls
	Refused        uint64 // those that there was no room for, or that came to a stopping pool, so far
	Kept           int    // results that nobody has acknowledged
	KeptBytes      int64
}

// Load looks at the ledger.
func (l *Ledger) Load() Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Load{
		Running: l.running, Limit: l.cfg.MaxRunning, Refused: l.refused, Kept: l.kept.Len(), KeptBytes: l.kept.Bytes(),
	}
}

// Running is how many calls run.
func (l *Ledger) Running() int { return l.Load().Running }

func stale(session string) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_STALE_OWNER,
		"a newer owner of the session %.100q has been here; stop working on it", session)
}

func reused(id string) *errs.Error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED,
		"the call %.100q is one of another server, tool or input; give each attempt an id of its own", id)
}
