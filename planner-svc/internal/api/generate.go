package api

import (
	"cmp"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
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
	r := &llm.Request{
		System: req.GetSystem(), Messages: req.GetMessages(), Tools: req.GetTools(), ToolChoice: req.GetToolChoice(),
		MaxTokens: int(min(req.GetMaxOutputTokens(), 1<<30)), Temperature: req.Temperature, Stop: req.GetStopSequences(),
	}
	b := cmp.Or(req.GetBudget(), &commonv1.ModelBudget{})
	budget := &plannerv1.TaskContext{ModelCallsLeft: b.ModelCalls, TokensLeft: b.Tokens, CostNanoUsdLeft: b.CostNanoUsd}
	reply, err := s.planWith.Planner(chosen).Generate(ctx, budget, r, req.GetOutputSchemaJson(), func(text string) error {
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
