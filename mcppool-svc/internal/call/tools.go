package call

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

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

// Approve approves a tool if its definition still has the hash that the user looked at. Every error is an *errs.Error.
func (c *Caller) Approve(ctx context.Context, use conn.Use, name, hash string) (*catalog.Tool, error) {
	tools, review, err := c.List(ctx, use, true)
	if err != nil {
		return nil, err
	}
	tool := tools.Find(name)
	switch {
	case tool == nil:
		return nil, noTool(use.Server, name)
	case tool.Hash != hash:
		return nil, refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the definition of the tool %s/%s has changed; look at it again", use.Server.ID, name)
	case !review.Holds(name):
		return tool, nil
	}
	if err := c.deps.Pins.Approve(use.Server, tool, use.User); err != nil {
		return nil, notStored(err)
	}
	c.deps.Log.InfoContext(ctx, "a tool was approved", "user", use.User, "mcp_id", use.Server.ID, "tool", name, "definition_hash", hash)
	c.audit(ctx, "tool_approval", slog.String("user", use.User), slog.String("mcp_id", use.Server.ID), slog.String("tool", name),
		slog.String("definition_hash", hash))
	return tool, nil
}
