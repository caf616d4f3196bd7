package api

import (
	"context"

	"google.golang.org/grpc"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/plan"
)

func (s *server) PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest) (*plannerv1.PlanStepsResponse, error) {
	return s.plan(ctx, req, nil)
}

func (s *server) StreamPlanSteps(req *plannerv1.StreamPlanStepsRequest, stream grpc.ServerStreamingServer[plannerv1.StreamPlanStepsResponse]) error {
	res, err := s.plan(stream.Context(), &plannerv1.PlanStepsRequest{Context: req.GetContext(), Begin: req.GetBegin()}, func(text string) error {
		return stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_AnswerText{AnswerText: text}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_Plan{Plan: res}})
}

func (s *server) plan(ctx context.Context, req *plannerv1.PlanStepsRequest, emit func(string) error) (*plannerv1.PlanStepsResponse, error) {
	base := req.GetContext().GetBase()
	planner, user, err := s.prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	res, err := planner.PlanSteps(ctx, req, emit)
	if err != nil {
		return nil, err
	}
	switch {
	case res.Answer != nil:
		s.contexts.Forget(user, base) // nothing is asked about a task after its answer
		return res, nil
	case res.GetMemory() != nil:
		s.contexts.Forget(user, base)
		req.Context.Memory, base = res.GetMemory(), ""
	}
	res.ContextName = s.contexts.Keep(user, base, req.GetContext())
	return res, nil
}

func (s *server) GenerateAnswer(req *plannerv1.GenerateAnswerRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateAnswerResponse]) error {
	ctx, base := stream.Context(), req.GetContext().GetBase()
	planner, user, err := s.prepare(ctx, req)
	if err != nil {
		return err
	}
	last, err := planner.GenerateAnswer(ctx, req, func(text string) error {
		return stream.Send(&plannerv1.GenerateAnswerResponse{Text: text})
	})
	if err != nil {
		return err
	}
	s.contexts.Forget(user, base) // nothing is asked about a task after its answer
	return stream.Send(last)
}

func (s *server) Think(req *plannerv1.ThinkRequest, stream grpc.ServerStreamingServer[plannerv1.ThinkResponse]) error {
	result, err := forward(stream.Context(), s, req, func(m *plan.Model, ctx context.Context, req *plannerv1.ThinkRequest) (*plannerv1.ThinkResult, error) {
		return m.Think(ctx, req, func(text string) error {
			return stream.Send(&plannerv1.ThinkResponse{Piece: &plannerv1.ThinkResponse_Text{Text: text}})
		})
	})
	if err != nil {
		return err
	}
	return stream.Send(&plannerv1.ThinkResponse{Piece: &plannerv1.ThinkResponse_Result{Result: result}})
}
