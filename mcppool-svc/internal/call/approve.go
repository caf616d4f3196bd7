package call

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// review says which tools of a server wait for an approval. Where that cannot be kept, none may be used.
func (c *Caller) review(s *registry.Server, all *catalog.Catalog) (*pin.Review, error) {
	review, err := c.deps.Pins.Review(s, all)
	if err != nil {
		return nil, notKept(err)
	}
	return review, nil
}

func notKept(err error) *errs.Error {
	return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "%w", err).
		With(errs.OutcomeKey, errs.OutcomeNotExecuted)
}

// quarantined is the refusal of a call whose tool waits for an approval.
func quarantined(r *Request, tool *catalog.Tool) *errs.Error {
	return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED,
		"the tool %[1]s/%[2]s is new, or not the one that was approved; `pawl mcp tools %[1]s --quarantined` shows what changed, and "+
			"`pawl mcp approve %[1]s %[2]s` approves it", r.Server.ID, tool.Name).With("definition_hash", tool.Hash)
}

// Approve lets a tool be used, where its definition is the one that was looked at. Every error is an *errs.Error.
func (c *Caller) Approve(ctx context.Context, use conn.Use, name, hash string) (*catalog.Tool, error) {
	all, review, err := c.ListFresh(ctx, use)
	if err != nil {
		return nil, err
	}
	tool := all.Find(name)
	switch {
	case tool == nil:
		return nil, noTool(use.Server, name)
	case tool.Hash != hash:
		return nil, refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the definition of the tool %s/%s is another one by now; look at it again", use.Server.ID, name)
	case !review.Holds(name):
		return tool, nil
	}
	if err := c.deps.Pins.Approve(use.Server, tool, use.User); err != nil {
		return nil, notKept(err)
	}
	c.deps.Log.InfoContext(ctx, "a tool was approved", "user", use.User, "mcp_id", use.Server.ID, "tool", name, "definition_hash", hash)
	c.audit(ctx, "tool_approval", slog.String("user", use.User), slog.String("mcp_id", use.Server.ID), slog.String("tool", name),
		slog.String("definition_hash", hash))
	return tool, nil
}
