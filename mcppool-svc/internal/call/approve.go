package call

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
)

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
