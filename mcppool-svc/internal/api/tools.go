package api

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/page"
	"pawl.dev/services/schema"
)

// defaultTools is the page size of ListTools where the caller names none.
const defaultTools = 200

// ListTools implements McpPoolService.
func (s *Server) ListTools(ctx context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	p, server, err := s.usable(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	scope := strings.Join([]string{"ListTools", p.Sub, server.UID, req.GetQuery()}, "\x00")
	after, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	all, err := s.caller.List(ctx, conn.Use{Server: server, User: p.Sub, Session: req.GetSessionId()})
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size == 0 {
		size = defaultTools
	}
	words := strings.Fields(strings.ToLower(req.GetQuery()))
	resp := &mcppoolv1.ListToolsResponse{}
	for _, tool := range all.After(string(after)) {
		if !tool.Matches(words) {
			continue
		}
		if len(resp.Tools) == size {
			resp.NextPageToken = page.Encode(scope, []byte(resp.Tools[size-1].GetName()))
			break
		}
		resp.Tools = append(resp.Tools, toolMessage(server, tool))
	}
	return resp, nil
}

func toolMessage(server *spec.Server, t *catalog.Tool) *commonv1.Tool {
	policy := server.Judge(t.Name, t.Hints)
	return &commonv1.Tool{
		Id: server.ID + "/" + t.Name, McpId: server.ID, Name: t.Name, Title: t.Title, Description: t.Description,
		InputSchemaJson: t.Input, OutputSchemaJson: t.Output, Effect: policy.Effect, Idempotent: policy.Idempotent,
		RiskFloor: policy.RiskFloor, DefinitionHash: t.Hash,
	}
}

// CallTool implements McpPoolService.
func (s *Server) CallTool(req *mcppoolv1.CallToolRequest, stream grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	ctx := stream.Context()
	p, server, err := s.usable(ctx, req.GetMcpId())
	if err != nil {
		return err
	}
	input, err := schema.ExactObject(req.GetInput(), req.GetInputJson())
	if err != nil {
		return errs.From(err).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	return s.caller.Call(ctx, call.Request{
		User: p.Sub, Server: server, Tool: req.GetName(), Input: input, CallID: req.GetCallId(),
		IdempotencyKey: req.GetIdempotencyKey(), Session: req.GetSessionId(), Timeout: req.GetTimeout().AsDuration(),
		DefinitionHash: req.GetExpectedDefinitionHash(),
	}, stream.Send)
}

// CancelCall implements McpPoolService.
func (s *Server) CancelCall(ctx context.Context, req *mcppoolv1.CancelCallRequest) (*mcppoolv1.CancelCallResponse, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	if !s.caller.Cancel(p.Sub, req.GetCallId(), req.GetReason()) {
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND,
			"no call %.100q of yours is running; it may have ended already", req.GetCallId())
	}
	return &mcppoolv1.CancelCallResponse{}, nil
}

// ReleaseSession implements McpPoolService.
func (s *Server) ReleaseSession(ctx context.Context, req *mcppoolv1.ReleaseSessionRequest) (*mcppoolv1.ReleaseSessionResponse, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	n := s.pool.ReleaseSession(p.Sub, req.GetSessionId())
	return &mcppoolv1.ReleaseSessionResponse{Released: uint32(n)}, nil
}
