package call

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/cache"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/ledger"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/meter"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/span"
)

// Pool is where connections come from: a conn.Pool.
type Pool interface {
	Acquire(ctx context.Context, use conn.Use) (*conn.Lease, error)
}

// Caller makes calls. It is safe for concurrent use.
type Caller struct {
	pool   Pool
	ledger *ledger.Ledger
	deps   Deps
}

// Deps are what a Caller needs beside connections and a ledger.
type Deps struct {
	// Lookup finds a user's server as it is registered now; before a further try. Where nil, nothing changes.
	Lookup func(user, mcpID string) (*registry.Server, error)

	Now   func() time.Time // that calls are to be started by
	Log   *slog.Logger
	Audit slog.Handler // gets a record of each call and approval; may be nil
	Meter *meter.Calls // measures calls; may be nil
	Pins  *pin.Book    // which tools may be used
	Cache *cache.Cache // results of tools that only read; may be nil

	// Models have models asked that servers want asked; may be nil, then none are.
	Models Models

	MaxResult    int           // bytes of a result as servers send it, what is above is cut off; 0: any
	InputTimeout time.Duration // how long a question stays open
}

// New makes a Caller.
func New(pool Pool, l *ledger.Ledger, deps Deps) *Caller {
	return &Caller{pool: pool, ledger: l, deps: deps}
}

// Cancel asks a user's running call to stop; false where there is none of that id.
func (c *Caller) Cancel(user, callID, reason string) bool {
	return c.ledger.Cancel(user, callID, cancelled{reason})
}

// Drain refuses new calls and returns when the running ones have ended and, where fetched is set, somebody has what they came to;
// those still running when ctx is done are stopped.
func (c *Caller) Drain(ctx context.Context, fetched bool) { c.ledger.Drain(ctx, fetched, errStopping) }

// Call makes a call, or follows the one of that id which was made before: progress and logs go to send as they come, the
// result last. Every error of a call is an *errs.Error that says in its metadata whether the tool ran; an error of send
// is returned as it is. When ctx ends, a call without an id ends too; one with an id goes on, for whoever attaches to it.
func (c *Caller) Call(ctx context.Context, r Request, send Send) error {
	c.ledger.Ack(r.User, r.Ack)
	base := ctx
	if r.CallID != "" {
		base = context.WithoutCancel(ctx)
	} else {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("making a call id: %w", err)
		}
		r.CallID, r.Unnamed = ledger.Unnamed(id.String()), true
	}
	if err := context.Cause(ctx); err != nil {
		return refuse(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "the caller went away before the call began: %w", err)
	}
	running, cancel := context.WithCancelCause(base)
	call, mine, err := c.ledger.Begin(ledger.Start{
		User: r.User, ID: r.CallID, Hashes: r.Hashes, Session: r.Session, Epoch: r.Epoch, Cancel: cancel,
	})
	defer cancel(nil)
	switch {
	case err != nil:
		c.record(ctx, &r, &facts{decision: refused}, 0, ledger.End{Err: errs.From(err)})
		return err
	case !mine:
		return c.follow(ctx, call, send)
	}
	m := &making{Caller: c, r: r, call: call, cancel: cancel, send: send}
	return m.lead(ctx, running)
}

var errStopping = mcp.ErrStopping

// cancelled is why a call ends on somebody's wish.
type cancelled struct{ reason string }

func (c cancelled) Error() string {
	if c.reason == "" {
		return "the call was cancelled"
	}
	return "the call was cancelled: " + c.reason
}

// timeout is why a call ended that took too long.
type timeout struct{ limit time.Duration }

func (t timeout) Error() string {
	return fmt.Sprintf("the tool did not answer within %s; it may still have run. Raise the server's call_timeout for slow tools", span.Text(t.limit))
}

// Unwrap makes it a deadline that passed.
func (t timeout) Unwrap() error { return context.DeadlineExceeded }
