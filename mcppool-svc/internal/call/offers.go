package call

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"
)

// rpcResourceNotFound is MCP's JSON-RPC error code for an unknown resource.
const rpcResourceNotFound = -32002

// subject describes the object of a request other than a tool call, for error messages.
type subject struct {
	kind     string               // such as: resource
	what     string               // such as: resource "file:///a"
	missing  commonv1.ErrorReason // if the object does not exist; 0: there is no such error
	needs    string               // the capability that the server must have; empty: none
	offering string               // the capability in words
}

// ListOffers returns the raw entries of a server's list. Errors of this and the other methods in this file are *errs.Error.
func (c *Caller) ListOffers(ctx context.Context, use conn.Use, list mcp.List) ([]json.RawMessage, error) {
	var entries []json.RawMessage
	about := subject{what: list.String(), offering: list.String()}
	err := c.withOffers(ctx, use, about, func(ctx context.Context, o mcp.Offers) (err error) {
		entries, err = o.List(ctx, list)
		return err
	})
	return entries, err
}

func aboutResource(uri string) subject {
	return subject{
		kind: "resource", what: fmt.Sprintf("resource %.200q", uri), missing: commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND,
		needs: "resources", offering: "resources",
	}
}

func aboutPrompt(name string) subject {
	return subject{
		kind: "prompt", what: fmt.Sprintf("prompt %.200q", name), missing: commonv1.ErrorReason_ERROR_REASON_PROMPT_NOT_FOUND,
		needs: "prompts", offering: "prompts",
	}
}

// Read reads a resource, exactly as the server sent it if so requested.
func (c *Caller) Read(ctx context.Context, use conn.Use, uri string, exact bool) (*mcppoolv1.ReadResourceResponse, error) {
	out, raw, err := fetch(ctx, c, use, aboutResource(uri), readContents, mcp.ReadResource(uri))
	if err == nil && exact {
		return &mcppoolv1.ReadResourceResponse{ResultJson: clean(string(raw))}, nil
	}
	return out, err
}

// Prompt returns a prompt with its arguments filled in, exactly as the server sent it if so requested.
func (c *Caller) Prompt(ctx context.Context, use conn.Use, name string, arguments map[string]string, exact bool) (*mcppoolv1.GetPromptResponse, error) {
	out, raw, err := fetch(ctx, c, use, aboutPrompt(name), readMessages, mcp.GetPrompt(name, arguments))
	if err == nil && exact {
		return &mcppoolv1.GetPromptResponse{ResultJson: clean(string(raw))}, nil
	}
	return out, err
}

// Complete returns possible values of an argument that is partly typed.
func (c *Caller) Complete(ctx context.Context, use conn.Use, what mcp.Completion) (*mcppoolv1.CompleteResponse, error) {
	about := aboutPrompt(what.Prompt)
	if what.URITemplate != "" {
		about = aboutResource(what.URITemplate)
	}
	about.kind, about.needs, about.offering = "completion", "completions", "completions"
	out, _, err := fetch(ctx, c, use, about, readCompletion, what.Query())
	return out, err
}

// fetch makes a query and reads its result, of at most MaxResult bytes.
func fetch[T any](ctx context.Context, c *Caller, use conn.Use, about subject, read func(json.RawMessage) (*T, error), q mcp.Query) (out *T, raw json.RawMessage, err error) {
	err = c.withOffers(ctx, use, about, func(ctx context.Context, o mcp.Offers) (err error) {
		raw, err = o.Get(ctx, q)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if limit := c.deps.MaxResult; limit > 0 && len(raw) > limit {
		return nil, nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "the %s of MCP server %s has %.1f MiB; the limit is %.1f MiB, "+
			"which an operator can raise with the pool's --max-tool-result-bytes", about.kind, use.Server.ID, float64(len(raw))/(1<<20), float64(limit)/(1<<20))
	}
	if out, err = read(raw); err != nil {
		return nil, nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
			"MCP server %s returned a %s that cannot be read: %w", use.Server.ID, about.kind, err)
	}
	return out, raw, nil
}

// withOffers runs do, which makes a request other than a tool call, within the time limit of a call.
func (c *Caller) withOffers(ctx context.Context, use conn.Use, about subject, do func(context.Context, mcp.Offers) error) error {
	if err := permitOffers(use); err != nil {
		return err
	}
	limit := use.Server.CallLimit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, tooSlow(limit))
	defer cancel()
	return c.withLease(ctx, use, func(lease *conn.Lease) error {
		o, err := offersOf(lease, use.Server, about)
		if err != nil {
			return err
		}
		return about.explain(use.Server, do(ctx, o))
	})
}

// permitOffers returns an error if a rule denies the user the server's resources and prompts.
func permitOffers(use conn.Use) error {
	if use.Server.PermitOffers(use.User) != registry.Deny {
		return nil
	}
	return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		"a rule of MCP server %s does not let you read from it; ask an operator", use.Server.ID)
}

// offersOf returns the connection as mcp.Offers if the server supports the request.
func offersOf(lease *conn.Lease, server *registry.Server, about subject) (mcp.Offers, error) {
	o, ok := lease.Client().(mcp.Offers)
	if !ok || about.needs != "" && !slices.Contains(lease.Client().Info().Capabilities, about.needs) {
		return nil, about.notOffered(server)
	}
	return o, nil
}

// notOffered returns the error for a server without the capability.
func (a subject) notOffered(server *registry.Server) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"MCP server %s does not offer %s; `capabilities` of the server says what it offers", server.ID, a.offering)
}

// explain turns a JSON-RPC error of the server into the error that the client gets; other errors are returned as they are.
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
		return a.notOffered(server)
	case a.missing != 0 && (e.Code == rpcResourceNotFound || e.Code == rpcInvalidParams && meansMissing(e.Message)):
		return errs.New(codes.NotFound, a.missing, "MCP server %s has no %s: %w", server.ID, a.what, e)
	case e.Code == rpcInvalidParams:
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"MCP server %s refused the request for %s: %w", server.ID, a.what, e)
	}
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
		"MCP server %s answered the request for %s with error %d: %w", server.ID, a.what, e.Code, e)
}

// meansMissing reports whether the message of an invalid-parameters error means that the object does not exist.
func meansMissing(message string) bool {
	m := strings.ToLower(message)
	return slices.ContainsFunc([]string{"not found", "unknown", "does not exist", "no such"}, func(words string) bool { return strings.Contains(m, words) })
}

// tooSlow returns the cause with which a request that takes too long is cancelled.
func tooSlow(limit time.Duration) error {
	return timeoutError("the MCP server did not answer within " + humantime.Text(limit) + "; raise its call_timeout if it is that slow")
}

// Subscription reports changes of a resource. It keeps its connection in use until it is closed.
type Subscription struct {
	*mcp.Subscription
	lease *conn.Lease
}

// Done is closed when the connection has ended: subscribe again.
func (s *Subscription) Done() <-chan struct{} { return s.lease.Client().Done() }

// Retired is closed when the pool no longer leases the connection, for example after a logout: subscribe again.
func (s *Subscription) Retired() <-chan struct{} { return s.lease.Retired() }

// Close ends the subscription and releases its connection.
func (s *Subscription) Close() {
	s.Subscription.Close()
	s.lease.Release()
}

// Subscribe asks a server to report changes of a resource.
func (c *Caller) Subscribe(ctx context.Context, use conn.Use, uri string) (*Subscription, error) {
	if err := permitOffers(use); err != nil {
		return nil, err
	}
	about := aboutResource(uri)
	about.needs, about.offering = "resource_subscriptions", "subscriptions of resources"
	limit := use.Server.CallLimit()
	asking, cancel := context.WithTimeoutCause(ctx, limit, tooSlow(limit))
	defer cancel()
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

// List returns the tools of a server, and their review: which of them wait for an approval. fresh lists again unless the list is only a
// moment old. Every error is an *errs.Error.
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

// withLease runs do, which calls no tool, with a connection. If the connection ended before anything was sent, it tries once more.
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

// Approve approves a tool if its definition still has the hash that the user reviewed. Every error is an *errs.Error.
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
	c.deps.Audit.Record(ctx, "tool_approval", slog.String("user", use.User), slog.String("mcp_id", use.Server.ID), slog.String("tool", name),
		slog.String("definition_hash", hash))
	return tool, nil
}
