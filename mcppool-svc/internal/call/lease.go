package call

import (
	"context"
	"errors"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/pin"
)

// List returns the tools of a server, and which of them wait for an approval. Every error is an *errs.Error.
func (c *Caller) List(ctx context.Context, use conn.Use) (*catalog.Catalog, *pin.Review, error) {
	return c.list(ctx, use, (*catalog.Cache).Get)
}

// ListFresh is List for who looks because something changed.
func (c *Caller) ListFresh(ctx context.Context, use conn.Use) (*catalog.Catalog, *pin.Review, error) {
	return c.list(ctx, use, (*catalog.Cache).Fresh)
}

func (c *Caller) list(ctx context.Context, use conn.Use, get func(*catalog.Cache, context.Context) (*catalog.Catalog, error)) (*catalog.Catalog, *pin.Review, error) {
	var all *catalog.Catalog
	err := c.leased(ctx, use, func(lease *conn.Lease) (err error) {
		all, err = get(lease.Tools(), ctx)
		return preparing(err)
	})
	if err != nil {
		return nil, nil, err
	}
	review, err := c.review(use.Server, all)
	return all, review, err
}

// leased does something over a connection. One that turns out to be dead before anything went out is replaced once: no
// tool ran, and the caller cannot know that the server was restarted.
func (c *Caller) leased(ctx context.Context, use conn.Use, do func(*conn.Lease) error) error {
	for try := 1; ; try++ {
		lease, err := c.pool.Acquire(ctx, use)
		if err != nil {
			return Explain(Preparing, err)
		}
		if err = do(lease); err == nil {
			lease.Release()
			return nil
		}
		var e *mcp.Error
		lost := errors.As(err, &e) && e.Lost
		switch {
		case lost:
			lease.Discard(err)
		case e != nil && e.Kind == mcp.Interrupted:
			lease.Doubt()
		}
		lease.Release()
		if try > 1 || !lost || e.Sent || e.Begun {
			var f failure
			errors.As(err, &f)
			return Explain(f.stage, err)
		}
	}
}

// failure is an error with the stage that it happened in.
type failure struct {
	stage Stage
	error
}

func (f failure) Unwrap() error { return f.error }

// preparing marks the failure of tools/list, which runs no tool however far it went.
func preparing(err error) error {
	if err == nil {
		return nil
	}
	e := *mcp.As(err)
	e.Sent = false
	return failure{Preparing, &e}
}
