package clitest

import (
	"cmp"
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"pawl.dev/mcppool-svc/mcppool"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// Pool is the real MCP pool, in memory. On scripts its unary methods.
type Pool struct {
	mcppoolv1.McpPoolServiceServer
	*Script
	// OnCall answers tool calls; nil: the real pool does.
	OnCall func(*mcppoolv1.CallToolRequest, func(*mcppoolv1.CallToolResponse) error) error
	// Lose reports whether the server stops after the real pool has made a call, so that its result is lost; may be nil.
	Lose func(*mcppoolv1.CallToolRequest) bool
}

// lost is a stream whose messages do not arrive.
type lost struct {
	grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]
}

// Send drops a message.
func (lost) Send(*mcppoolv1.CallToolResponse) error { return nil }

// NewPool registers and activates servers as the user local.
func NewPool(t testing.TB, servers ...*mcppoolv1.McpServer) *Pool {
	t.Helper()
	service, err := mcppool.New(t.Context(), mcppool.Config{}, mcppool.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close() })
	p := &Pool{Script: &Script{}, McpPoolServiceServer: implementation[mcppoolv1.McpPoolServiceServer](service)}
	for _, s := range servers {
		_, err := p.CreateMcpServer(local(), &mcppoolv1.CreateMcpServerRequest{McpServerId: s.GetId(), McpServer: s})
		if err == nil && s.GetActive() && !s.GetAutoActivate() {
			_, err = p.ActivateMcpServer(local(), &mcppoolv1.ActivateMcpServerRequest{Id: s.GetId()})
		}
		if err != nil {
			t.Fatalf("%s: %v", s.GetId(), err)
		}
	}
	return p
}

// local is a context of the user local, who is an operator.
func local() context.Context {
	user := identity.Principal{Sub: identity.LocalSub, Roles: []identity.Role{identity.RoleUser, identity.RoleOperator}}
	return identity.NewContext(context.Background(), user)
}

// Register implements Registrar.
func (p *Pool) Register(r grpc.ServiceRegistrar) {
	mcppoolv1.RegisterMcpPoolServiceServer(scriptRegistrar{r, p.Script}, p)
}

// Server returns the server registered under an id, without its times and state; nil if there is none.
func (p *Pool) Server(id string) *mcppoolv1.McpServer {
	s, err := p.GetMcpServer(local(), &mcppoolv1.GetMcpServerRequest{Id: id})
	if err != nil {
		return nil
	}
	s.CreateTime, s.UpdateTime, s.StateTime, s.State = nil, nil, nil, 0
	return s
}

// CallTool calls a tool.
func (p *Pool) CallTool(req *mcppoolv1.CallToolRequest, stream grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	switch {
	case p.Lose != nil && p.Lose(req):
		return cmp.Or(p.McpPoolServiceServer.CallTool(req, lost{stream}), error(errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "stopping")))
	case p.OnCall == nil:
		return p.McpPoolServiceServer.CallTool(req, stream)
	}
	return p.OnCall(req, stream.Send)
}
