package api

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/plan"
)

func (s *server) Generate(req *plannerv1.GenerateRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error {
	ctx := stream.Context()
	if _, err := identity.FromContext(ctx); err != nil {
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
		if err := stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_ToolCall{ToolCall: c}}); err != nil {
			return err
		}
	}
	return stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_End{End: &plannerv1.GenerateEnd{
		StopReason: reply.Stop, Model: reply.Name, ProviderModel: reply.Model, Usage: plan.UsageProto(reply.Usage),
	}}})
}

// reply asks the model and emits its text. An error carries what the call cost.
func (s *server) reply(ctx context.Context, chosen llm.Model, req *plannerv1.GenerateRequest, emit func(text string) error) (*llm.Reply, error) {
	r := &llm.Request{
		System: req.GetSystem(), Messages: req.GetMessages(), Tools: req.GetTools(), ToolChoice: req.GetToolChoice(),
		MaxTokens: int(min(req.GetMaxOutputTokens(), 1<<30)), Temperature: req.Temperature, Stop: req.GetStopSequences(),
	}
	if schema := req.GetOutputSchemaJson(); schema != "" {
		reply, err := s.planWith.Planner(chosen).Structured(ctx, r, schema)
		if err != nil {
			return nil, err
		}
		return reply, emit(reply.Text)
	}
	reply, err := chosen.Generate(ctx, r, func(d llm.Delta) error {
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
