package ledger

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/services/errs"
)

// Adopt is Attach for a call that the server does as a task: where the call is not known, somebody else began it, and it is
// entered to be followed on. mine says so; then End it.
func (l *Ledger) Adopt(q Query, cancel context.CancelCauseFunc) (c *Call, mine bool, err error) {
	k := keyOf(q.User, q.ID)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if !l.fence.pass(q.User, q.Session, q.Epoch) {
		return nil, false, stale(q.Session).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	if c := l.calls[k]; c != nil {
		if !c.is([]Hash{q.Hash}) {
			return nil, false, reused(q.ID).With(errs.OutcomeKey, errs.OutcomeUnknown)
		}
		return c, false, nil
	}
	if isUnnamed(q.ID) {
		return nil, false, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "there is no call %.100q", q.ID).
			With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	if err := l.admit(q.User); err != nil {
		return nil, false, errs.From(err).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	c = &Call{key: k, user: q.User, named: true, adopted: true, hashes: []Hash{q.Hash}, cancel: cancel}
	l.enter(c)
	return c, true, nil
}

// enter counts a call in. Called with mu held.
func (l *Ledger) enter(c *Call) {
	l.calls[c.key] = c
	l.running++
	l.users[c.user]++
}

// nothingLearnt says whether an adopted call ended without a word of what became of it: who asks again may be luckier.
func (c *Call) nothingLearnt(end End) bool {
	return c.adopted && end.Err != nil && end.Err.Metadata[errs.OutcomeKey] != errs.OutcomeKnown
}
