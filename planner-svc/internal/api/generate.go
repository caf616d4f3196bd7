package api

import (
	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/llm"
)

// Generate implements PlannerService.
func (s *Server) Generate(req *plannerv1.GenerateRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error {
	ctx := stream.Context()
	if err := caller(ctx); err != nil {
		return err
	}
	chosen, err := s.models.Choose(req.GetModel(), req.GetModelHints())
	if err != nil {
		return err
	}
	reply, err := chosen.Generate(ctx, requestOf(req), func(d llm.Delta) error {
		if d.Text == "" {
			return nil
		}
		return stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_Text{Text: d.Text}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_End{End: &plannerv1.GenerateEnd{
		StopReason: plannerv1.StopReason(reply.Stop + 1), Model: reply.Name, ProviderModel: reply.Model,
		Usage: &commonv1.Usage{InputTokens: reply.Usage.Input, OutputTokens: reply.Usage.Output, ModelCalls: 1},
	}}})
}

func requestOf(req *plannerv1.GenerateRequest) *llm.Request {
	r := &llm.Request{
		System: req.GetSystem(), MaxTokens: int(min(req.GetMaxOutputTokens(), 1<<30)), Temperature: req.Temperature, Stop: req.GetStopSequences(),
		Messages: make([]llm.Message, 0, len(req.GetMessages())),
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

func partOf(p *plannerv1.ModelPart) llm.Part {
	switch part := p.GetPart().(type) {
	case *plannerv1.ModelPart_Image:
		return llm.Part{Kind: llm.Image, MIME: part.Image.GetMimeType(), Data: part.Image.GetData()}
	case *plannerv1.ModelPart_Audio:
		return llm.Part{Kind: llm.Audio, MIME: part.Audio.GetMimeType(), Data: part.Audio.GetData()}
	default:
		return llm.Part{Text: p.GetText()}
	}
}
