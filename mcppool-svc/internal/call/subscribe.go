package call

import (
	"context"

	"google.golang.org/grpc/codes"

	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

// Subscription tells of a resource's changes. It keeps its connection in use until it is closed.
type Subscription struct {
	*mcp.Subscription
	lease *conn.Lease
}

// Done is closed once the connection has ended: subscribe again.
func (s *Subscription) Done() <-chan struct{} { return s.lease.Client().Done() }

// Retired is closed once others are served over another connection, or none, as after a logout: subscribe again.
func (s *Subscription) Retired() <-chan struct{} { return s.lease.Retired() }

// Close ends it.
func (s *Subscription) Close() {
	s.Subscription.Close()
	s.lease.Release()
}

// Subscribe asks a server to tell of a resource's changes.
func (c *Caller) Subscribe(ctx context.Context, use conn.Use, uri string) (*Subscription, error) {
	if err := permitOffers(use); err != nil {
		return nil, err
	}
	about := aboutResource(uri)
	about.needs, about.offering = "resource_subscriptions", "subscriptions of resources"
	limit := use.Server.CallLimit()
	asking, cancel := context.WithTimeoutCause(ctx, limit, tooSlow(limit))
	defer cancel()
	use.Standing = true
	lease, err := c.pool.Acquire(asking, use)
	if err != nil {
		return nil, Explain(Preparing, err)
	}
	o, err := offersOf(lease, use.Server, about)
	if err != nil {
		lease.Release()
		return nil, err
	}
	sub, err := o.Subscribe(asking, uri)
	if err != nil {
		lease.Close(err)
		return nil, Explain(Preparing, about.explain(use.Server, err))
	}
	return &Subscription{sub, lease}, nil
}

// IsTransient reports whether an error may pass by itself.
func IsTransient(err error) bool {
	switch errs.From(err).Code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}
