package ledger

import (
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/services/errs"
)

// Query asks after a call.
type Query struct {
	User, ID string
	Hash     Hash
	Pool     string // the one that was to make it; may be empty
	Session  string // may be empty
	Epoch    uint64 // of the session's owner
}

// Attach finds a call, running or finished. One that is not known is refused from then on, and the error says what that
// proves: that it was never executed, where this very pool was to make it and never forgot anything that could be it.
func (l *Ledger) Attach(q Query) (*Call, error) {
	k := keyOf(q.User, q.ID)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if !l.fence.pass(q.User, q.Session, q.Epoch) {
		return nil, stale(q.Session).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	if c := l.calls[k]; c != nil {
		if !c.is([]Hash{q.Hash}) {
			// Who asks for what was never asked for here has lost track: a person had better look.
			return nil, reused(q.ID).With(errs.OutcomeKey, errs.OutcomeUnknown)
		}
		return c, nil
	}
	f := l.graves.fates[k]
	if f == unknown {
		f = l.bar(k, q.ID, denied)
	}
	return nil, notFound(q, f, l.id)
}

// bar refuses a call that is not known from then on, as one of this fate where it is certain that it never ran, and
// returns what it is. Called with mu held.
func (l *Ledger) bar(k key, id string, f fate) fate {
	if isUnnamed(id) || !l.graves.never(k) {
		f = unproven
	}
	l.graves.bury(k, f)
	return f
}

// poolKey says which pool does not know a call: where there are several, another one may.
const poolKey = "pool_id"

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
