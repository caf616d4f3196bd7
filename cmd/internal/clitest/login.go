package clitest

import (
	"context"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// LoginState is the state of every login of the fake pool.
const LoginState = "state-1"

// StartMcpLogin begins a login at an authorization server that does not exist.
func (p *Pool) StartMcpLogin(_ context.Context, req *mcppoolv1.StartMcpLoginRequest) (*mcppoolv1.StartMcpLoginResponse, error) {
	if _, err := p.lookup(req.GetMcpId()); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.LoggedIn = append(p.LoggedIn, req.GetMcpId()+" begun")
	address := "https://auth.example/authorize?" + url.Values{"redirect_uri": {req.GetRedirectUri()}, "state": {LoginState}}.Encode()
	if p.LoginAddress != "" {
		address = p.LoginAddress
	}
	return &mcppoolv1.StartMcpLoginResponse{
		AuthorizationUrl: address, State: LoginState, RedirectUri: req.GetRedirectUri(), ExpireTime: timestamppb.New(Epoch),
	}, nil
}

// FinishMcpLogin accepts any code but "bad".
func (p *Pool) FinishMcpLogin(_ context.Context, req *mcppoolv1.FinishMcpLoginRequest) (*mcppoolv1.FinishMcpLoginResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.LoggedIn = append(p.LoggedIn, "finished "+req.GetState()+" "+req.GetCode()+" "+req.GetIss()+req.GetError())
	if req.GetCode() == "bad" || req.GetError() != "" {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED, "the answer of the authorization server is refused")
	}
	return &mcppoolv1.FinishMcpLoginResponse{McpId: "web", Scopes: []string{"read", "write"}}, nil
}

// DeleteMcpLogin forgets a login.
func (p *Pool) DeleteMcpLogin(_ context.Context, req *mcppoolv1.DeleteMcpLoginRequest) (*mcppoolv1.DeleteMcpLoginResponse, error) {
	_, err := p.change(req.GetMcpId(), func(s *mcppoolv1.McpServer) { p.LoggedIn = append(p.LoggedIn, s.GetId()+" ended") })
	return &mcppoolv1.DeleteMcpLoginResponse{}, err
}
