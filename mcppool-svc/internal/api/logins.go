package api

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/oauth"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// StartMcpLogin implements McpPoolService.
func (s *Server) StartMcpLogin(ctx context.Context, req *mcppoolv1.StartMcpLoginRequest) (*mcppoolv1.StartMcpLoginResponse, error) {
	p, server, err := s.find(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	if server.Disabled {
		return nil, disabled(server)
	}
	if err := s.checkWritable(); err != nil {
		return nil, err
	}
	started, err := s.Logins.Start(ctx, server, p.Sub, req.GetRedirectUri())
	if err != nil {
		return nil, loginError(server.ID, err)
	}
	return &mcppoolv1.StartMcpLoginResponse{
		AuthorizationUrl: started.URL, State: started.State, RedirectUri: started.Redirect, ExpireTime: timestamppb.New(started.Expiry),
	}, nil
}

// FinishMcpLogin implements McpPoolService.
func (s *Server) FinishMcpLogin(ctx context.Context, req *mcppoolv1.FinishMcpLoginRequest) (*mcppoolv1.FinishMcpLoginResponse, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	finished, err := s.Logins.Finish(ctx, p.Sub, oauth.Answer{
		State: req.GetState(), Code: req.GetCode(), Iss: req.GetIss(), Error: req.GetError(), Description: req.GetErrorDescription(),
	})
	if err != nil {
		return nil, loginError("", err)
	}
	// Forget connections that failed for lack of the login, so that the next call connects.
	s.Pool.RetireUser(finished.Server.UID, p.Sub)
	return &mcppoolv1.FinishMcpLoginResponse{McpId: finished.MCPID, Scopes: finished.Scopes, ExpireTime: timeOf(finished.Expiry)}, nil
}

// DeleteMcpLogin implements McpPoolService.
func (s *Server) DeleteMcpLogin(ctx context.Context, req *mcppoolv1.DeleteMcpLoginRequest) (*mcppoolv1.DeleteMcpLoginResponse, error) {
	p, server, err := s.find(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	if err := s.checkWritable(); err != nil {
		return nil, err
	}
	if err := s.Logins.Forget(ctx, server, p.Sub, p.IsOperator()); err != nil {
		return nil, loginError(server.ID, err)
	}
	s.Pool.RetireUser(server.UID, p.Sub)
	return &mcppoolv1.DeleteMcpLoginResponse{}, nil
}

// loginError converts an error of a login to the client's.
func loginError(id string, err error) error {
	switch {
	case errors.Is(err, oauth.ErrRedirect):
		return invalid("redirect_uri", err.Error())
	case errors.Is(err, oauth.ErrUnknownLogin):
		return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED, "%w; start the login again", err)
	case errors.Is(err, oauth.ErrNoLogin):
		return failed(commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"users do not log in to MCP server %s: it is not an HTTP server, its registration has an Authorization header, all users share its connection, or the pool logs in for all users", id)
	case errors.Is(err, oauth.ErrAnswer):
		return failed(commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED, "%w", err)
	case errors.Is(err, oauth.ErrStorage):
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "%w", err)
	default:
		return call.Explain(call.Preparing, err)
	}
}

func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

var loginStates = map[oauth.State]mcppoolv1.LoginState{
	oauth.Unasked:  mcppoolv1.LoginState_LOGIN_STATE_UNSPECIFIED,
	oauth.Required: mcppoolv1.LoginState_LOGIN_STATE_REQUIRED,
	oauth.Active:   mcppoolv1.LoginState_LOGIN_STATE_ACTIVE,
}
