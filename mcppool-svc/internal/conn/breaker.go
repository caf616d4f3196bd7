package conn

import (
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/mcppool-svc/internal/upstream"
	"pawl.dev/services/errs"
	"pawl.dev/services/span"
)

// retryAfter is how long a failed connect is answered from memory.
const retryAfter = time.Second

// failure is what is known of a connection that could not be made, or was lost.
type failure struct {
	err    error
	stderr upstream.Stderr
	at     time.Time // of the last one; such that a lost connection delays nothing
	since  time.Time // of the first one since it last worked
	inRow  int       // connects that failed since the last one that did not
}

// saysNothing is whether the server itself was not at fault.
func (f *failure) saysNothing() bool {
	kind := upstream.As(f.err).Kind
	return kind == upstream.LoginRequired || kind == upstream.Misconfigured
}

// remembered is the failure as it is told without another connect.
func (f *failure) remembered() error {
	e := *upstream.As(f.err)
	e.Remembered = true
	return &e
}

// refuse answers for a connection that failed before: the last failure for a moment, and for longer where it was one of
// many in a row. After that one attempt shows whether it works again: all who want the connection share it. Nil lets the
// attempt be made. Called with mu held.
func (p *Pool) refuse(k key, id string) error {
	f := p.failed[k.place()]
	if f == nil {
		return nil
	}
	since := time.Since(f.at)
	if f.inRow < p.cfg.BreakAfter {
		if since < retryAfter {
			return f.remembered()
		}
		return nil
	}
	left := p.cfg.BreakFor - since
	if left <= 0 {
		return nil
	}
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
		"connecting to MCP server %s failed %d times in a row, so it is left alone for another %s; `pawl mcp list` says what is wrong: %w",
		id, f.inRow, span.AtLeast(max(left, time.Second)), f.remembered()).With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(left)
}

// Works says that a user's connection to a server could be made, beside the pool: the next call tries at once.
func (p *Pool) Works(server *spec.Server, user string) {
	k := keyOf(Use{Server: server, User: user}).place()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed[k] != nil {
		delete(p.failed, k)
		p.tell(k)
	}
}

// failedAgain remembers a connect that failed. That the user has to log in first, or that the registration cannot be used, says
// nothing against the server. Called with mu held.
func (p *Pool) failedAgain(k key, err error) {
	f := &failure{err: err, stderr: upstream.As(err).Stderr, at: time.Now(), since: time.Now(), inRow: 1}
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
