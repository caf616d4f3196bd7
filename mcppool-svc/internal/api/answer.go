package api

import (
	"context"
	"encoding/json"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/identity"
)

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

// resume reads the continuation of a call that ended with a question.
func resume(req *mcppoolv1.CallToolRequest, r *call.Request) error {
	if req.GetRequestState() == "" {
		if len(req.GetAnswers()) > 0 {
			return invalid("answers", "they go with the request_state of the questions; a call that still runs is answered by AnswerCall")
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
