package call

import (
	"context"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/pin"
)

// List returns the tools of a server, and which of them wait for an approval. fresh asks the server again unless the list is only
// a moment old. Every error is an *errs.Error.
func (c *Caller) List(ctx context.Context, use conn.Use, fresh bool) (*catalog.Catalog, *pin.Review, error) {
	var tools *catalog.Catalog
	err := c.withLease(ctx, use, func(lease *conn.Lease) (err error) {
		if fresh {
			tools, err = lease.Tools().Fresh(ctx)
		} else {
			tools, err = lease.Tools().Get(ctx)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	review, err := c.review(use.Server, tools)
	return tools, review, err
}

// withLease runs something that calls no tool over a connection. A connection that ended before anything was sent is replaced once.
func (c *Caller) withLease(ctx context.Context, use conn.Use, do func(*conn.Lease) error) error {
	for replaced := false; ; replaced = true {
		lease, err := c.pool.Acquire(ctx, use)
		if err != nil {
			return Explain(Preparing, err)
		}
		if err = do(lease); err != nil {
			err = Explain(Preparing, err)
		}
		lease.Close(err)
		if err == nil || replaced || !endedUnsent(err) {
			return err
		}
	}
}
