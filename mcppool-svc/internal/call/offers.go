package call

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"
)

// rpcResourceNotFound is the JSON-RPC error code that MCP has for it.
const rpcResourceNotFound = -32002

// subject names what a request beside tool calls is about, for its errors.
type subject struct {
	what     string // such as: resource "file:///a"
	missing  commonv1.ErrorReason
	has      func(mcp.Capabilities) bool
	offering string // what a server must offer for it
}

// ListOffers returns the raw entries of a list of a server. Every error of this and what follows is an *errs.Error.
func (c *Caller) ListOffers(ctx context.Context, use conn.Use, list mcp.List) ([]json.RawMessage, error) {
	var entries []json.RawMessage
	about := subject{what: list.String(), has: func(mcp.Capabilities) bool { return true }}
	err := c.offered(ctx, use, about, func(ctx context.Context, o mcp.Offers) (err error) {
		entries, err = o.List(ctx, list)
		return err
	})
	return entries, err
}

// offered makes a request beside tool calls, within the time of a call.
func (c *Caller) offered(ctx context.Context, use conn.Use, about subject, do func(context.Context, mcp.Offers) error) error {
	if err := permitOffers(use); err != nil {
		return err
	}
	limit := use.Server.CallLimit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, tooSlow{limit})
	defer cancel()
	return c.withLease(ctx, use, func(lease *conn.Lease) error {
		o, err := offersOf(lease, use.Server, about)
		if err != nil {
			return err
		}
		return about.explain(use.Server, do(ctx, o))
	})
}

// permitOffers refuses users who may not use what the server offers beside tools.
func permitOffers(use conn.Use) error {
	if use.Server.PermitOffers(use.User) != registry.Deny {
		return nil
	}
	return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		"a rule of MCP server %s does not let you read from it; ask an operator", use.Server.ID)
}

// offersOf returns the connection for such requests, if the server supports them.
func offersOf(lease *conn.Lease, server *registry.Server, about subject) (mcp.Offers, error) {
	o, ok := lease.Client().(mcp.Offers)
	if !ok || !about.has(lease.Client().Info().Capabilities) {
		return nil, about.lacking(server)
	}
	return o, nil
}

func (a subject) lacking(server *registry.Server) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"MCP server %s does not offer %s; `capabilities` of the server says what it offers", server.ID, a.offering)
}

// explain turns a server's error into the client's.
func (a subject) explain(server *registry.Server, err error) error {
	if err == nil {
		return nil
	}
	e := mcp.As(err)
	if e.Kind != mcp.Answered {
		return err
	}
	switch {
	case e.Code == rpcMethodNotFound:
		return a.lacking(server)
	case a.missing != 0 && (e.Code == rpcResourceNotFound || e.Code == rpcInvalidParams && saysMissing(e.Message)):
		return errs.New(codes.NotFound, a.missing, "MCP server %s has no %s: %w", server.ID, a.what, e)
	case e.Code == rpcInvalidParams:
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"MCP server %s refused the request for %s: %w", server.ID, a.what, e)
	}
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
		"MCP server %s answered the request for %s with error %d: %w", server.ID, a.what, e.Code, e)
}

// saysMissing recognises a missing thing in a server's error message: MCP gives it the code of invalid parameters.
func saysMissing(message string) bool {
	m := strings.ToLower(message)
	for _, words := range []string{"not found", "unknown", "does not exist", "no such"} {
		if strings.Contains(m, words) {
			return true
		}
	}
	return false
}

// tooSlow is the cause of a request's end that took too long.
type tooSlow struct{ limit time.Duration }

func (t tooSlow) Error() string {
	return "the MCP server did not answer within " + humantime.Text(t.limit) + "; raise its call_timeout if it is that slow"
}

// Is makes it a deadline.
func (tooSlow) Is(target error) bool { return errors.Is(target, context.DeadlineExceeded) }

// unreadable returns the error of a response that is not valid MCP.
func unreadable(server *registry.Server, what string, err error) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
		"MCP server %s gave a %s that cannot be read: %w", server.ID, what, err)
}
