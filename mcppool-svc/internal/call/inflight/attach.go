package inflight

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/services/errs"
)

// poolKey is the metadata key of the pool that does not know a call: with several pools, another one may.
const poolKey = "pool_id"

// Query names a call that was made before.
type Query struct {
	User, ID string
	Hash     Hash
	Pool     string // the pool that was to make the call; may be empty
	Session  string // may be empty
	Epoch    uint64 // of the session's owner
}

// Attach returns a running or finished call. An unknown id is refused from then on, and the error says what that proves: the call
// was never executed if this pool was to make it and has never forgotten a call that could be it.
func (c *Calls) Attach(q Query) (*Call, error) {
	k := keyOf(q.User, q.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if call, err := c.find(k, q); call != nil || err != nil {
		return call, err
	}
	f := c.tombstones.fates[k]
	if f == unknown {
		f = c.bar(k, q.ID, denied)
	}
	return nil, notFound(q, f, c.pool)
}

// Adopt is Attach for a call that the server runs as an MCP task: an unknown call was begun by another pool and is registered here to be
// followed. The caller that gets first == true follows the task and must call End.
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
	return c.enter(&Call{key: k, user: q.User, named: true, adopted: true, hashes: []Hash{q.Hash}, cancel: cancel}), true, nil
}

// find returns a known call, or nil. Called with mu held.
func (c *Calls) find(k key, q Query) (*Call, error) {
	c.expire()
	if !c.fence.pass(q.User, q.Session, q.Epoch) {
		return nil, stale(q.Session).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	call := c.calls[k]
	if call != nil && !call.matches(q.Hash) {
		return nil, reused(q.ID).With(errs.OutcomeKey, errs.OutcomeUnknown) // the client has lost track: a person should look
	}
	return call, nil
}

// bar refuses an unknown id from then on and returns its fate: f if the call certainly never ran, else unproven. Called with mu held.
func (c *Calls) bar(k key, id string, f fate) fate {
	if isUnnamed(id) || !c.tombstones.never(k) {
		f = unproven
	}
	c.tombstones.add(k, f)
	return f
}

func notFound(q Query, f fate, pool string) error {
	outcome, why := f.outcome(), f.story()
	if f.neverRan() && q.Pool != pool {
		outcome, why = errs.OutcomeUnknown, "this pool never saw it, but another one, or this one before it was restarted, may have"
	} else if f == denied {
		why = "it never came here, and will be refused"
	}
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "there is no call %.100q: %s", q.ID, why).
		With(errs.OutcomeKey, outcome).With(poolKey, pool)
}
