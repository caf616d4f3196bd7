package conn

import (
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/upstream"
	"pawl.dev/services/errs"
)

// retryAfter is how long a failed connect is answered from memory.
const retryAfter = time.Second

// failure is what is known of a connection that could not be made, or was lost.
type failure struct {
	err    error
	stderr upstream.Stderr
	at     time.Time // of the last one; such that a lost connection delays nothing
	inRow  int       // connects that failed since the last one that did not
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
			return f.err
		}
		return nil
	}
	left := p.cfg.BreakFor - since
	if left <= 0 {
		return nil
	}
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
		"connecting to MCP server %s failed %d times in a row, so it is left alone for another %v; `pawl mcp list` says what is wrong: %w",
		id, f.inRow, max(left.Round(time.Second), time.Second), f.err).With(errs.OutcomeKey, errs.OutcomeNotExecuted).WithRetryAfter(left)
}

// failedAgain remembers a connect that failed. That the user has to log in first says nothing against the server. Called
// with mu held.
func (p *Pool) failedAgain(k key, err error) {
	f := &failure{err: err, stderr: upstream.As(err).Stderr, at: time.Now(), inRow: 1}
	if upstream.As(err).Kind == upstream.LoginRequired {
		f.inRow = 0
	} else if before := p.failed[k.place()]; before != nil {
		f.inRow += before.inRow
	}
	p.failed[k.place()] = f
}
