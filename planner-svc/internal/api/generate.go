package api

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/plan"
)

// Generate implements PlannerService.
func (s *Server) Generate(req *plannerv1.GenerateRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error {
	ctx := stream.Context()
	if err := caller(ctx); err != nil {
		return err
	}
	if err := checkGenerate(req); err != nil {
		return err
	}
	chosen, err := s.models.Choose(req.GetModel(), req.GetModelHints())
	if err != nil {
		return err
	}
	reply, err := s.reply(ctx, chosen, req, func(text string) error {
		return stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_Text{Text: text}})
	})
	if err != nil {
		return err
	}
	for _, c := range reply.Calls {
		call := &plannerv1.ModelToolCall{Id: c.ID, Name: c.Name, InputJson: c.Arguments}
		if err := stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_ToolCall{ToolCall: call}}); err != nil {
			return err
		}
	}
	return stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_End{End: &plannerv1.GenerateEnd{
		StopReason: plannerv1.StopReason(reply.Stop + 1), Model: reply.Name, ProviderModel: reply.Model, Usage: plan.UsageProto(reply.Usage),
	}}})
}

// reply asks the model and emits its text. An error carries what the call cost.
func (s *Server) reply(ctx context.Context, chosen llm.Model, req *plannerv1.GenerateRequest, emit func(text string) error) (*llm.Reply, error) {
	if schema := req.GetOutputSchemaJson(); schema != "" {
		reply, err := s.planWith.Planner(chosen).Structured(ctx, requestOf(req), schema)
		if err != nil {
			return nil, err
		}
		return reply, emit(reply.Text)
	}
	reply, err := chosen.Generate(ctx, requestOf(req), func(d llm.Delta) error {
		if d.Text == "" {
			return nil
		}
		return emit(d.Text)
	})
	var typed *errs.Error
	if errors.As(err, &typed) && reply.Usage.Requests > 0 {
		return nil, typed.WithUsage(plan.UsageProto(reply.Usage))
	}
	return reply, err
}

// checkGenerate validates what the contract cannot express.
func checkGenerate(req *plannerv1.GenerateRequest) error {
	if req.GetOutputSchemaJson() != "" && len(req.GetTools()) > 0 {
		return invalid("output_schema_json", "a schema for the output cannot be combined with tools")
	}
	for _, m := range req.GetMessages() {
		for _, p := range m.GetParts() {
			switch assistant := m.GetRole() == plannerv1.ModelRole_MODEL_ROLE_ASSISTANT; {
			case p.GetToolCall() != nil && !assistant:
				return invalid("messages", "a tool call stands in a message of the user; only the model calls tools")
			case p.GetToolResult() != nil && assistant:
				return invalid("messages", "a tool result stands in a message of the model; results are the user's")
			}
		}
	}
	return nil
}

func invalid(field, message string) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "%s", message).WithViolation(field, message)
}

func requestOf(req *plannerv1.GenerateRequest) *llm.Request {
	r := &llm.Request{
		System: req.GetSystem(), MaxTokens: int(min(req.GetMaxOutputTokens(), 1<<30)), Temperature: req.Temperature, Stop: req.GetStopSequences(),
		Messages: make([]llm.Message, 0, len(req.GetMessages())), ToolChoice: toolChoices[req.GetToolChoice()],
	}
	for _, t := range req.GetTools() {
		schema := t.GetInputSchemaJson()
		if schema == "" {
			schema = `{"type":"object"}`
		}
		r.Tools = append(r.Tools, llm.Tool{Name: t.GetName(), Description: t.GetDescription(), Parameters: schema})
	}
	for _, m := range req.GetMessages() {
		message := llm.Message{Role: llm.User, Parts: make([]llm.Part, 0, len(m.GetParts()))}
		if m.GetRole() == plannerv1.ModelRole_MODEL_ROLE_ASSISTANT {
			message.Role = llm.Assistant
		}
		for _, p := range m.GetParts() {
			message.Parts = append(message.Parts, partOf(p))
		}
		r.Messages = append(r.Messages, message)
	}
	return r
}

var toolChoices = map[plannerv1.ModelToolChoice]llm.ToolChoice{
	plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE:     llm.ToolsNone,
	plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED: llm.ToolsRequired,
}

func partOf(p *plannerv1.ModelPart) llm.Part {
	switch part := p.GetPart().(type) {
	case *plannerv1.ModelPart_Image:
		return llm.Part{Kind: llm.Image, MIME: part.Image.GetMimeType(), Data: part.Image.GetData()}
	case *plannerv1.ModelPart_Audio:
		return llm.Part{Kind: llm.Audio, MIME: part.Audio.GetMimeType(), Data: part.Audio.GetData()}
	case *plannerv1.ModelPart_ToolCall:
		c := part.ToolCall
		return llm.Part{Kind: llm.CallPart, Call: llm.ToolCall{ID: c.GetId(), Name: c.GetName(), Arguments: c.GetInputJson()}}
	case *plannerv1.ModelPart_ToolResult:
		r := part.ToolResult
		return llm.Part{Kind: llm.ResultPart, Result: llm.ToolResult{CallID: r.GetCallId(), Text: r.GetText(), IsError: r.GetIsError()}}
	default:
		return llm.Part{Text: p.GetText()}
	}
}
