package api

import (
	"encoding/hex"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// AttachCall implements McpPoolService.
func (s *Server) AttachCall(req *mcppoolv1.AttachCallRequest, stream grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
	ctx := stream.Context()
	p, err := identity.FromContext(ctx)
	if err != nil {
		return err
	}
	q := inflight.Query{
		User: p.Sub, ID: req.GetCallId(), Pool: req.GetPoolId(), Session: req.GetSessionId(), Epoch: req.GetEpoch(),
	}
	if n, err := hex.Decode(q.Hash[:], []byte(req.GetRequestHash())); err != nil || n != len(q.Hash) {
		return invalid("request_hash", "it is not a SHA-256 in hex").With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	task := call.Task{ID: req.GetTaskId(), MCPID: req.GetMcpId(), Tool: req.GetName()}
	if task.ID != "" {
		if !p.OnBehalf {
			// A server may not tell its users apart: a guessed name would lead to another user's task.
			return denied("only a service that acts for a user may ask for an MCP task by its name; leave task_id out").
				With(errs.OutcomeKey, errs.OutcomeUnknown)
		}
		_, task.Server, task.Refused = s.usable(ctx, task.MCPID)
	}
	return s.Caller.Attach(ctx, q, task, func(m *mcppoolv1.CallToolResponse) error { return sendError(stream.Send(attached(m))) })
}

// attached turns an event of a call into one of AttachCall.
func attached(m *mcppoolv1.CallToolResponse) *mcppoolv1.AttachCallResponse {
	switch e := m.GetEvent().(type) {
	case *mcppoolv1.CallToolResponse_Progress:
		return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Progress{Progress: e.Progress}}
	case *mcppoolv1.CallToolResponse_Log:
		return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Log{Log: e.Log}}
	case *mcppoolv1.CallToolResponse_Result:
		return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Result{Result: e.Result}}
	case *mcppoolv1.CallToolResponse_InputRequired:
		return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_InputRequired{InputRequired: e.InputRequired}}
	case *mcppoolv1.CallToolResponse_Task:
		return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Task{Task: e.Task}}
	}
	return &mcppoolv1.AttachCallResponse{}
}
