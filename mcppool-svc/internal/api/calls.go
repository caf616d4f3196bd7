package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/schema"
)

// CallTool implements McpPoolService.
func (s *Server) CallTool(req *mcppoolv1.CallToolRequest, stream grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	return s.callTool(stream.Context(), req, func(m *mcppoolv1.CallToolResponse) error { return sendError(stream.Send(m)) })
}

// sendError marks a failure to send: the client does not know the outcome of the call.
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
			"the call names the pool_id of another process, or of this one before it restarted; list the tools again to get the current pool_id").
			With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	input, err := schema.ParseObject(req.GetInput(), req.GetInputJson())
	if err != nil {
		return errs.From(err).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	// A known call can be followed even if its server was deleted, so the refusal comes later.
	_, server, refused := s.findUsable(ctx, req.GetMcpId())
	r := call.Request{
		User: p.Sub, Server: server, Refused: refused, MCPID: req.GetMcpId(), Tool: req.GetName(), Input: input,
		CallID: req.GetCallId(), IdempotencyKey: req.GetIdempotencyKey(), Session: req.GetSessionId(), Epoch: req.GetEpoch(),
		Timeout: req.GetTimeout().AsDuration(), DefinitionHash: req.GetExpectedDefinitionHash(),
		ConfigRevision: req.GetExpectedConfigRevision(), Ack: req.GetAckCallIds(), Exact: req.GetExact(), AskAbove: req.GetAskAbove(), BypassCache: req.GetBypassCache(), Continues: req.GetRequestState() != "",
		ModelBudget: req.GetModelBudget(),
	}
	if req.GetStartBy() != nil {
		r.StartBy = req.GetStartBy().AsTime()
	}
	if err := readContinuation(req, &r); err != nil {
		return errs.From(err).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if r.CallID != "" {
		r.Hashes = hashes(req, input.String())
	}
	return s.Caller.Call(ctx, r, send)
}

// hashes returns the hash of the request with the parsed input, and a second one with the client's JSON text if the texts differ.
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
	why := errors.New(strings.TrimSuffix("the call was cancelled: "+req.GetReason(), ": "))
	if !s.Calls.Cancel(p.Sub, req.GetCallId(), why) {
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND,
			"none of your running calls has the id %.100q; it may have ended", req.GetCallId())
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
			// Some servers do not separate their users: a guessed id could give access to another user's MCP task.
			return denied("only a service that acts for a user may send task_id; leave it out").
				With(errs.OutcomeKey, errs.OutcomeUnknown)
		}
		_, task.Server, task.Refused = s.findUsable(ctx, task.MCPID)
	}
	return s.Caller.Attach(ctx, q, task, func(m *mcppoolv1.CallToolResponse) error { return sendError(stream.Send(toAttached(m))) })
}

// toAttached converts an event of CallTool to the event of AttachCall, which has the same fields.
func toAttached(m *mcppoolv1.CallToolResponse) *mcppoolv1.AttachCallResponse {
	out := &mcppoolv1.AttachCallResponse{}
	to := out.ProtoReflect()
	m.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, event protoreflect.Value) bool {
		to.Set(to.Descriptor().Fields().ByName(field.Name()), event)
		return true
	})
	return out
}

// AnswerCall implements McpPoolService.
func (s *Server) AnswerCall(ctx context.Context, req *mcppoolv1.AnswerCallRequest) (*mcppoolv1.AnswerCallResponse, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := toAnswer(req.GetAnswer())
	if err != nil {
		return nil, err
	}
	if err := s.Caller.Answer(ctx, p.Sub, req.GetCallId(), req.GetAnswer().GetInputId(), answer); err != nil {
		return nil, err
	}
	return &mcppoolv1.AnswerCallResponse{}, nil
}

func toAnswer(a *mcppoolv1.CallAnswer) (mcp.Answer, error) {
	actions := map[mcppoolv1.CallAnswer_Action]mcp.Action{
		mcppoolv1.CallAnswer_ACTION_ACCEPT: mcp.Accept, mcppoolv1.CallAnswer_ACTION_DECLINE: mcp.Decline,
		mcppoolv1.CallAnswer_ACTION_CANCEL: mcp.Cancel,
	}
	action, ok := actions[a.GetAction()]
	if !ok {
		return mcp.Answer{}, invalid("answer.action", "it must be ACCEPT, DECLINE or CANCEL")
	}
	content := json.RawMessage(a.GetContentJson())
	if len(content) > 0 && !json.Valid(content) {
		return mcp.Answer{}, invalid("answer.content_json", "it is not JSON")
	}
	return mcp.Answer{Action: action, Content: content}, nil
}

// readContinuation reads the continuation of a call that ended with a question.
func readContinuation(req *mcppoolv1.CallToolRequest, r *call.Request) error {
	if req.GetRequestState() == "" {
		if len(req.GetAnswers()) > 0 {
			return invalid("answers", "they need the request_state of the questions; to answer a call that still runs, use AnswerCall")
		}
		return nil
	}
	from, err := mcp.DecodeContinuation(req.GetRequestState())
	if err != nil {
		return invalid("request_state", err.Error())
	}
	answers := make(map[string]mcp.Answer, len(req.GetAnswers()))
	for _, a := range req.GetAnswers() {
		answer, err := toAnswer(a)
		if err != nil {
			return err
		}
		answers[a.GetInputId()] = answer
	}
	r.Resume, r.Answers = from, answers
	return nil
}
