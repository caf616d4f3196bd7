package api

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/diagnose"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/services/errs"
)

// maxChecks bounds the tests at once: each is a connection or a process outside the pool's limits.
const maxChecks = 8

// TestMcpServer implements McpPoolService.
func (s *Server) TestMcpServer(ctx context.Context, req *mcppoolv1.TestMcpServerRequest) (*mcppoolv1.TestMcpServerResponse, error) {
	p, server, err := s.find(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	select {
	case s.checks <- struct{}{}:
		defer func() { <-s.checks }()
	default:
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"%d MCP servers are being tested already; try again in a moment", maxChecks)
	}
	subject := diagnose.Subject{
		Server: server, User: p.Sub, Active: s.Registry.Active(p.Sub, server),
		Review: func(all *catalog.Catalog) (*pin.Review, error) { return s.Pins.Review(server, all) },
	}
	if s.Models != nil {
		subject.Models = s.Models.Names
	}
	report, connected := diagnose.Run(ctx, s.Connector, subject)
	if connected {
		s.Pool.Recovered(server, p.Sub)
	}
	return report, nil
}

// GetMcpServerLog implements McpPoolService.
func (s *Server) GetMcpServerLog(ctx context.Context, req *mcppoolv1.GetMcpServerLogRequest) (*mcppoolv1.GetMcpServerLogResponse, error) {
	p, server, err := s.find(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	log := s.Pool.Log(server, p.Sub)
	resp := &mcppoolv1.GetMcpServerLogResponse{Stderr: log.Stderr.Text, Truncated: log.Stderr.Cut, Connected: log.Connected}
	if !log.Time.IsZero() {
		resp.ConnectTime = timestamppb.New(log.Time)
	}
	if log.Err != nil {
		resp.LastError = log.Err.Error()
	}
	return resp, nil
}
