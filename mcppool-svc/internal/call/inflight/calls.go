package inflight

import (
	"cmp"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/services/errs"
)

const (
	// retryAfter is the retry delay of a refusal because of a limit.
	retryAfter = time.Second
	// sweepInterval is the time after which expired results are dropped even if no calls arrive.
	sweepInterval = time.Minute
	// countedResult is the size from which a result counts for the budget of large messages while it is kept: a message that was larger may have a
	// small result, or none that can be used.
	countedResult = 256 << 10
)

// Calls holds the calls of one pool. It is safe for concurrent use. Its errors are *errs.Error with the outcome of the call.
type Calls struct {
	cfg  Config
	pool string // id of this pool

	mu              sync.Mutex
	calls           map[key]*Call  // guarded by mu; running and finished
	results         *results       // guarded by mu; the finished ones
	running         int            // guarded by mu
	users           map[string]int // guarded by mu; running calls by user
	tombstones      *tombstones    // guarded by mu
	fence           *fence         // guarded by mu
	refused         uint64         // guarded by mu; calls that Begin refused because of a limit, or while draining
	unfetched       int            // guarded by mu; finished calls whose result has not been sent to any client
	draining        bool           // guarded by mu
	ignoreUnfetched bool           // guarded by mu; draining does not wait for results to be fetched
	drained         chan struct{}  // closed when draining and there is nothing left to wait for
}

// New returns the calls of the pool with the given id, which must be unique among all pools.
func New(cfg Config, pool string) *Calls {
	cfg = cfg.withDefaults()
	return &Calls{
		cfg: cfg, pool: pool, calls: make(map[key]*Call), results: newResults(cfg.MaxFinished, cfg.MaxFinishedBytes), users: make(map[string]int),
		tombstones: newTombstones(cfg.MaxTombstones), fence: newFence(cfg.MaxSessions), drained: make(chan struct{}),
	}
}

// Start describes a call that is about to begin.
type Start struct {
	User, ID string // ID is the client's, or from Unnamed
	Hashes   []Hash // of the request; several if it can be written in several ways
	Session  string // may be empty
	Epoch    uint64 // of the session's owner
	Cancel   context.CancelCauseFunc
}

// Begin registers a call and returns first == true: the caller runs the call and must call End. If the id is known, Begin returns the known
// call, which the caller may follow.
func (c *Calls) Begin(s Start) (call *Call, first bool, err error) {
	k := keyOf(s.User, s.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	if !c.fence.pass(s.User, s.Session, s.Epoch) {
		return nil, false, stale(s.Session).With(errs.OutcomeKey, c.outcome(k))
	}
	if call := c.calls[k]; call != nil {
		if !call.matches(s.Hashes...) {
			return nil, false, reused(s.ID).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
		}
		return call, false, nil
	}
	if t := c.tombstones.byID[k]; t != noTombstone {
		return nil, false, errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
			"the call id %.100q is already used (%s); use a new call id for another attempt", s.ID, t.text()).With(errs.OutcomeKey, t.outcome())
	}
	if err := c.admit(s.User); err != nil {
		c.refused++
		return nil, false, err
	}
	return c.register(&Call{key: k, user: s.User, named: !isUnnamed(s.ID), hashes: s.Hashes, cancel: s.Cancel}), true, nil
}

// register adds a running call. Called with mu held.
func (c *Calls) register(call *Call) *Call {
	call.done = make(chan struct{})
	c.calls[call.key] = call
	c.running++
	c.users[call.user]++
	return call
}

// outcome returns the proven outcome of the call with an id, or UNKNOWN. Called with mu held.
func (c *Calls) outcome(k key) string {
	if c.calls[k] != nil {
		return errs.OutcomeUnknown
	}
	if t := c.tombstones.byID[k]; t != noTombstone {
		return t.outcome()
	}
	if c.tombstones.mayBeOverwritten(k) {
		return errs.OutcomeUnknown
	}
	return errs.OutcomeNotExecuted
}

// admit refuses a call over a limit, and every call while the pool drains. Called with mu held.
func (c *Calls) admit(user string) error {
	refuse := func(format string, args ...any) error {
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED, format, args...).
			With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(retryAfter)
	}
	switch {
	case c.draining:
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
			"the MCP pool is stopping; try again later").With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	case c.users[user] >= c.cfg.MaxRunningPerUser:
		return refuse("%d tool calls of yours are running, which is the limit; wait for one, or cancel one", c.users[user])
	case c.running >= c.cfg.MaxRunning:
		return refuse("the pool runs %d tool calls, which is the limit; try again later", c.running)
	}
	return nil
}

// End records how a call ended and tells its followers.
func (c *Calls) End(call *Call, end End) {
	size, now := end.size(), c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	call.end = end
	close(call.done)
	call.cancel = nil // it references the request
	if size < countedResult {
		call.release()
	}
	c.running--
	if c.users[call.user]--; c.users[call.user] == 0 {
		delete(c.users, call.user)
	}
	c.expire()
	defer c.checkDrained()
	switch {
	case !call.named:
		delete(c.calls, call.key)
	case call.adopted && end.Err != nil && end.Err.Metadata[errs.OutcomeKey] != errs.OutcomeKnown:
		c.forget(call, unproven) // a later AttachCall may learn more
	case call.acked:
		c.forget(call, acked)
	case size > c.cfg.MaxFinishedBytes:
		c.forget(call, evicted) // keeping it would evict all others
	default:
		call.ended, call.unfetched = now, true
		c.unfetched++
		c.results.add(call, size)
		for evict := c.results.excess(); evict != nil; evict = c.results.excess() {
			c.forget(evict, evicted)
		}
	}
}

// Cancel stops a user's running call. It returns false if no call with that id runs. If the id is unknown, Begin refuses it from
// then on.
func (c *Calls) Cancel(user, id string, cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := keyOf(user, id)
	call := c.calls[k]
	if call == nil {
		if c.tombstones.byID[k] == noTombstone {
			c.refuseUnknown(k, id, cancelled)
		}
		return false
	}
	if call.cancel == nil {
		return false
	}
	call.cancel(cause)
	return true
}

// Ack drops the results of a user's calls and returns how many of the ids were known. A running call continues and is dropped when it ends.
func (c *Calls) Ack(user string, ids []string) int {
	if len(ids) == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, id := range ids {
		call := c.calls[keyOf(user, id)]
		switch {
		case call == nil:
			continue
		case call.cancel != nil:
			call.acked = true
		default:
			c.forget(call, acked)
		}
		n++
	}
	return n
}

// forget drops a call and leaves a tombstone. Called with mu held.
func (c *Calls) forget(call *Call, t tombstone) {
	delete(c.calls, call.key)
	c.fetched(call)
	c.tombstones.add(call.key, t)
	c.results.remove(call)
	call.release()
}

// expire drops results that were not acknowledged in time. Called with mu held.
func (c *Calls) expire() {
	for call := c.results.oldest(); call != nil && c.cfg.Now().Sub(call.ended) >= c.cfg.ResultTimeout; call = c.results.oldest() {
		c.forget(call, expired)
	}
}

// Run drops expired results until ctx is done, even while no calls arrive.
func (c *Calls) Run(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.mu.Lock()
			c.expire()
			c.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// Load is how full the pool is.
type Load struct {
	Running, Limit int    // calls
	Refused        uint64 // calls refused because of a limit or because the pool was stopping, since the start
	Kept           int    // results not yet acknowledged
	KeptBytes      int64
}

// Load returns the current load.
func (c *Calls) Load() Load {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Load{Running: c.running, Limit: c.cfg.MaxRunning, Refused: c.refused, Kept: c.results.len(), KeptBytes: c.results.bytes}
}

func stale(session string) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_STALE_OWNER,
		"a newer owner of the session %.100q has called this pool; stop working on the session", session)
}

func reused(id string) *errs.Error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED,
		"the call id %.100q belongs to a call with another server, tool or input; use a new call id for each attempt", id)
}

// Config sets limits. Zero values mean the defaults.
type Config struct {
	MaxRunning        int           // calls at once, in all; 10,000
	MaxRunningPerUser int           // 1,000
	MaxFinished       int           // results kept; 10,000
	MaxFinishedBytes  int64         // their size; 256 MiB
	MaxTombstones     int           // ids of forgotten calls, 100 bytes each; 100,000
	MaxSessions       int           // sessions whose newest owner is kept, 100 bytes each; 100,000
	ResultTimeout     time.Duration // how long a result waits to be acknowledged; 15 minutes

	Now func() time.Time // nil: time.Now
}

func (c Config) withDefaults() Config {
	c.MaxRunning = cmp.Or(c.MaxRunning, 10_000)
	c.MaxRunningPerUser = cmp.Or(c.MaxRunningPerUser, 1_000)
	c.MaxFinished = cmp.Or(c.MaxFinished, 10_000)
	c.MaxFinishedBytes = cmp.Or(c.MaxFinishedBytes, 256<<20)
	c.MaxTombstones = cmp.Or(c.MaxTombstones, 100_000)
	c.MaxSessions = cmp.Or(c.MaxSessions, 100_000)
	c.ResultTimeout = cmp.Or(c.ResultTimeout, 15*time.Minute)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Drain refuses new calls and waits until the running ones have ended; if fetched is set, also until the result of each named call was sent to
// a client. When ctx is done, it cancels the running calls with cause and no longer waits for results to be fetched.
func (c *Calls) Drain(ctx context.Context, fetched bool, cause error) {
	c.mu.Lock()
	c.draining, c.ignoreUnfetched = true, !fetched
	c.checkDrained()
	c.mu.Unlock()
	select {
	case <-c.drained:
		return
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.ignoreUnfetched = true
	for _, call := range c.calls {
		if call.cancel != nil {
			call.cancel(cause)
		}
	}
	c.checkDrained()
	c.mu.Unlock()
	<-c.drained
}

// Fetched records that the result of a call was sent to a client.
func (c *Calls) Fetched(call *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetched(call)
	if !call.named {
		call.release() // its result is not kept
	}
}

// fetched is Fetched with mu held.
func (c *Calls) fetched(call *Call) {
	if call.unfetched {
		call.unfetched = false
		c.unfetched--
		c.checkDrained()
	}
}

// checkDrained closes drained if the pool drains and nothing is left to wait for. Called with mu held.
func (c *Calls) checkDrained() {
	if !c.draining || c.running > 0 || c.unfetched > 0 && !c.ignoreUnfetched {
		return
	}
	select {
	case <-c.drained:
	default:
		close(c.drained)
	}
}

// poolKey is the metadata key of the id of the pool that reports CALL_NOT_FOUND: another pool may know the call.
const poolKey = "pool_id"

// Query names an earlier call.
type Query struct {
	User, ID string
	Hash     Hash
	Pool     string // the pool chosen for the call; may be empty
	Session  string // may be empty
	Epoch    uint64 // of the session's owner
}

// Attach returns a running or finished call. If the id is unknown, Begin refuses it from then on. The error's outcome is NOT_EXECUTED only if
// this pool was chosen for the call and certainly never ran it, else UNKNOWN.
func (c *Calls) Attach(q Query) (*Call, error) {
	k := keyOf(q.User, q.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if call, err := c.find(k, q); call != nil || err != nil {
		return call, err
	}
	t := c.tombstones.byID[k]
	if t == noTombstone {
		t = c.refuseUnknown(k, q.ID, denied)
	}
	return nil, notFound(q, t, c.pool)
}

// Adopt is Attach for a call that the server runs as an MCP task. It registers an unknown call, which another pool began, and returns
// first == true: the caller follows the task and must call End.
func (c *Calls) Adopt(q Query, cancel context.CancelCauseFunc) (call *Call, first bool, err error) {
	k := keyOf(q.User, q.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if call, err := c.find(k, q); call != nil || err != nil {
		return call, false, err
	}
	if isUnnamed(q.ID) {
		return nil, false, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "there is no call %.100q", q.ID).
			With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	if err := c.admit(q.User); err != nil {
		return nil, false, errs.From(err).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	return c.register(&Call{key: k, user: q.User, named: true, adopted: true, hashes: []Hash{q.Hash}, cancel: cancel}), true, nil
}

// find returns a known call, or nil. Called with mu held.
func (c *Calls) find(k key, q Query) (*Call, error) {
	c.expire()
	if !c.fence.pass(q.User, q.Session, q.Epoch) {
		return nil, stale(q.Session).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	call := c.calls[k]
	if call != nil && !call.matches(q.Hash) {
		return nil, reused(q.ID).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	return call, nil
}

// refuseUnknown leaves a tombstone for an unknown id, so that Begin refuses the id. The tombstone is t if the call certainly never ran, else
// unproven. Called with mu held.
func (c *Calls) refuseUnknown(k key, id string, t tombstone) tombstone {
	if isUnnamed(id) || c.tombstones.mayBeOverwritten(k) {
		t = unproven
	}
	c.tombstones.add(k, t)
	return t
}

func notFound(q Query, t tombstone, pool string) error {
	outcome, why := t.outcome(), t.text()
	if t.neverRan() && q.Pool != pool {
		outcome, why = errs.OutcomeUnknown, "this pool did not run it, but another pool may have, or this one before a restart"
	} else if t == denied {
		why = "it never arrived, and will be refused if it does"
	}
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "there is no call %.100q: %s", q.ID, why).
		With(errs.OutcomeKey, outcome).With(poolKey, pool)
}
