package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/oauth"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// Server implements McpPoolService.
type Server struct {
	mcppoolv1.UnsafeMcpPoolServiceServer
	Parts
	tests    chan struct{} // a slot for each running test of a server
	hub      *hub          // notified when a server changes
	stopping chan struct{}
	stop     func() // closes stopping
}

// Parts are the dependencies of a Server.
type Parts struct {
	Registry  *registry.Registry
	Pool      *conn.Pool
	Caller    *call.Caller
	Calls     *inflight.Calls
	Pins      *pin.Book
	Logins    *oauth.Logins
	Connector Connector    // for tests of servers
	Models    *call.Models // the models for requests of servers (sampling); nil: none
	Writable  func() error // returns an error if other replicas would not receive changes made here; nil: there are no other replicas
	Log       *slog.Logger
	ID        string // the pool_id of this process
	DataDir   string // the pool's data folder; "": all data is in memory

	AllowAddresses []netip.Prefix // private addresses at which plain users may register servers
}

// New returns a Server.
func New(p Parts) *Server {
	s := &Server{Parts: p, tests: make(chan struct{}, maxTests), hub: newHub(), stopping: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.stopping) })
	p.Pool.Observe(s.hub.Touch)
	p.Pool.SetWatched(s.hub.Watches)
	p.Registry.Observe(func(user string) { s.hub.Touch("", user) })
	return s
}

// find returns the caller and the server that the caller sees under an id.
func (s *Server) find(ctx context.Context, id string) (identity.Principal, *registry.Server, error) {
	return s.findOf(ctx, id, "")
}

// findOf is find for the server of an owner; "": the server that the caller sees. Only operators may name another user.
func (s *Server) findOf(ctx context.Context, id, owner string) (identity.Principal, *registry.Server, error) {
	p, err := ownerNamer(ctx, owner)
	if err != nil {
		return p, nil, err
	}
	var server *registry.Server
	if owner != "" {
		server, err = s.Registry.Of(owner, id)
	} else {
		server, err = s.Registry.Lookup(p.Sub, id)
	}
	return p, server, err
}

// ownerNamer returns the caller if it may name the owner of a server.
func ownerNamer(ctx context.Context, owner string) (identity.Principal, error) {
	p, err := identity.FromContext(ctx)
	if err == nil && owner != "" && owner != p.Sub && !p.IsOperator() {
		err = denied("only an operator may name the MCP servers of another user")
	}
	return p, err
}

// findUsable is find for a server that must be enabled, and active for the caller.
func (s *Server) findUsable(ctx context.Context, id string) (identity.Principal, *registry.Server, error) {
	p, server, err := s.find(ctx, id)
	if err != nil {
		return p, nil, err
	}
	if server.Disabled {
		return p, nil, disabled(server)
	}
	if !s.Registry.Active(p.Sub, server) {
		return p, nil, failed(commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE,
			"you have not activated MCP server %[1]s; run `pawl mcp activate %[1]s`, or POST /v1/mcpServers/%[1]s:activate", id)
	}
	return p, server, nil
}

// findChangeable is findOf for a server that the caller must be allowed to change.
func (s *Server) findChangeable(ctx context.Context, id, owner string) (identity.Principal, *registry.Server, error) {
	p, server, err := s.findOf(ctx, id, owner)
	switch {
	case err != nil:
		return p, nil, err
	case server.Owner != p.Sub && !p.IsOperator():
		return p, nil, denied("MCP server %s is shared by all users: only an operator may change it", id)
	}
	return p, server, s.checkWritable()
}

// checkWritable refuses a change that other replicas of the pool would never receive.
func (s *Server) checkWritable() error {
	if s.Writable == nil {
		return nil
	}
	if err := s.Writable(); err != nil {
		return failed(commonv1.ErrorReason_ERROR_REASON_READ_ONLY,
			"nothing was changed, because the other replicas would not receive the change: %w; an operator has to give all replicas the same key and restart them", err)
	}
	return nil
}

func disabled(server *registry.Server) *errs.Error {
	return failed(commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE, "MCP server %s is disabled; %s", server.ID, howToEnable(server))
}

// howToEnable says how a disabled server is enabled.
func howToEnable(server *registry.Server) string {
	if server.FromConfig {
		return "enable it in its configuration file, and restart the pool"
	}
	return fmt.Sprintf("enable it with `pawl mcp update %[1]s --no-disabled`, or PATCH /v1/mcpServers/%[1]s?updateMask=disabled and {\"disabled\": false}", server.ID)
}

// failed returns a FAILED_PRECONDITION error with the outcome NOT_EXECUTED.
func failed(reason commonv1.ErrorReason, format string, args ...any) *errs.Error {
	return errs.New(codes.FailedPrecondition, reason, format, args...).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
}

func denied(format string, args ...any) *errs.Error {
	return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, format, args...)
}

// invalid returns the error for an invalid field of the request.
func invalid(field, problem string) *errs.Error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "%s: %s", field, problem).
		WithViolation(field, problem)
}
