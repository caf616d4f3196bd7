package conn

import (
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/span"
)

// retryAfter is how long a failed connect is answered from memory.
const retryAfter = time.Second

// failure is what is known of a connection that could not be made, or was lost.
type failure struct {
	err    error
	stderr mcp.Stderr
	at     time.Time     // of the last one; such that a lost connection delays nothing
	since  time.Time     // of the first one since it last worked
	inRow  int           // connects that failed since the last one that did not
	trying chan struct{} // closed when somebody who looked has had it tried again; nil while nobody has
}

// saysNothing is whether the server itself was not at fault.
func (f *failure) saysNothing() bool {
	kind := mcp.As(f.err).Kind
	return kind == mcp.LoginRequired || kind == mcp.Misconfigured
}

// remembered is the failure as it is told without another connect.
func (f *failure) remembered() error {
	e := *mcp.As(f.err)
	e.Remembered = true
	return &e
}

// refuse answers for a connection that failed before: the last failure for a moment, and for longer where it was one of
// many in a row. After that one attempt shows whether it works again: all who want the connection share it. Nil lets the
// attempt be made. Called with mu held.
func (p *Pool) refuse(k key, id string) error {
	f := p.failed[k.place()]
	left := time.Until(p.refusedUntil(k))
	switch {
	case f == nil || left <= 0 && !p.trying(k):
		return nil
	case left <= 0 || f.inRow < p.cfg.BreakAfter:
		return f.remembered()
	}
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
		"connecting to MCP server %s failed %d times in a row, so it is left alone for another %s; `pawl mcp list` says what is wrong: %w",
		id, f.inRow, span.AtLeast(max(left, time.Second)), f.remembered()).With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(left)
}

// refusedUntil is when refuse lets the next attempt be made; zero where nothing failed. Called with mu held.
func (p *Pool) refusedUntil(k key) time.Time {
	f := p.failed[k.place()]
	switch {
	case f == nil:
		return time.Time{}
	case f.inRow < p.cfg.BreakAfter:
		return f.at.Add(retryAfter)
	}
	return f.at.Add(p.cfg.BreakFor)
}

// mayTryAt is when one that refuse turns away now is to ask again; zero where it lets an attempt be made. What only people can
// mend is not tried each second: who mends it retires connections, which wakes those who wait. Called with mu held.
func (p *Pool) mayTryAt(k key) time.Time {
	until := p.refusedUntil(k)
	switch {
	case time.Until(until) <= 0:
		return time.Time{}
	case p.failed[k.place()].saysNothing():
		return until.Add(p.cfg.BreakFor)
	}
	return until
}

// trying says whether a further connection beside the first is being made. Called with mu held.
func (p *Pool) trying(k key) bool {
	if k.nth == 0 {
		return false // who wants the first shares the attempt
	}
	for e := range p.those(k.at(0)) {
		if e.nth > 0 && e.client == nil {
			return true
		}
	}
	return false
}

// Works says that a user's connection to a server could be made, beside the pool: the next call tries at once, also one that needs a
// connection beside the first.
func (p *Pool) Works(server *registry.Server, user string) {
	k := keyOf(Use{Server: server, User: user})
	p.mu.Lock()
	defer p.mu.Unlock()
	forgotten := false
	for _, place := range []key{k.place(), k.at(1).place()} {
		forgotten = forgotten || p.failed[place] != nil
		delete(p.failed, place)
	}
	if forgotten {
		p.tell(k)
	}
}

// failedAgain remembers a connect that failed. That the user has to log in first, or that the registration cannot be used, says
// nothing against the server. Called with mu held.
func (p *Pool) failedAgain(k key, err error) {
	f := &failure{err: err, stderr: mcp.As(err).Stderr, at: time.Now(), since: time.Now(), inRow: 1}
	before := p.failed[k.place()]
	if before != nil {
		f.since = before.since
	}
	switch {
	case f.saysNothing():
		f.inRow = 0
	case before != nil:
		f.inRow += before.inRow
	}
	p.failed[k.place()] = f
}
