package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/schema"
)

// CallTool implements McpPoolService.
func (s *Server) CallTool(req *mcppoolv1.CallToolRequest, stream grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	return s.callTool(stream.Context(), req, func(m *mcppoolv1.CallToolResponse) error { return sendError(stream.Send(m)) })
}

// sendError marks an error of sending: the outcome of the call is unknown to the client.
func sendError(err error) error {
	if err == nil {
		return nil
	}
	return errs.From(err).With(errs.OutcomeKey, errs.OutcomeUnknown)
}

func (s *Server) callTool(ctx context.Context, req *mcppoolv1.CallToolRequest, send call.Send) error {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return err
	}
	if id := req.GetPoolId(); id != "" && id != s.ID {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_OTHER_POOL,
			"the call is for another pool process than this one, or than it was before a restart; list the tools again for the pool_id of now").
			With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	input, err := schema.ParseObject(req.GetInput(), req.GetInputJson())
	if err != nil {
		return errs.From(err).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	// A known call is answered even if its server is gone, so a refusal comes later.
	_, server, refused := s.usable(ctx, req.GetMcpId())
	r := call.Request{
		User: p.Sub, Server: server, Refused: refused, MCPID: req.GetMcpId(), Tool: req.GetName(), Input: input,
		CallID: req.GetCallId(), IdempotencyKey: req.GetIdempotencyKey(), Session: req.GetSessionId(), Epoch: req.GetEpoch(),
		Timeout: req.GetTimeout().AsDuration(), DefinitionHash: req.GetExpectedDefinitionHash(),
		ConfigRevision: req.GetExpectedConfigRevision(), Ack: req.GetAckCallIds(), BypassCache: req.GetBypassCache(), Continues: req.GetRequestState() != "",
	}
	if req.GetStartBy() != nil {
		r.StartBy = req.GetStartBy().AsTime()
	}
	if err := resume(req, &r); err != nil {
		return errs.From(err).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if r.CallID != "" {
		r.Hashes = hashes(req, input.String())
	}
	return s.Caller.Call(ctx, r, send)
}

// hashes returns the request hashes: of the input as it is used, and of the client's text if it differs.
func hashes(req *mcppoolv1.CallToolRequest, input string) []inflight.Hash {
	h := []inflight.Hash{inflight.HashOf(req.GetMcpId(), req.GetName(), input)}
	if text := req.GetInputJson(); text != "" && text != input {
		h = append(h, inflight.HashOf(req.GetMcpId(), req.GetName(), text))
	}
	return h
}

// AckCall implements McpPoolService.
func (s *Server) AckCall(ctx context.Context, req *mcppoolv1.AckCallRequest) (*mcppoolv1.AckCallResponse, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	return &mcppoolv1.AckCallResponse{Acknowledged: uint32(s.Calls.Ack(p.Sub, req.GetCallIds()))}, nil
}

// CancelCall implements McpPoolService.
func (s *Server) CancelCall(ctx context.Context, req *mcppoolv1.CancelCallRequest) (*mcppoolv1.CancelCallResponse, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	if !s.Caller.Cancel(p.Sub, req.GetCallId(), req.GetReason()) {
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
	s.Calls.Ack(p.Sub, req.GetAckCallIds())
	n := s.Pool.ReleaseSession(p.Sub, req.GetSessionId())
	return &mcppoolv1.ReleaseSessionResponse{Released: uint32(n)}, nil
}
