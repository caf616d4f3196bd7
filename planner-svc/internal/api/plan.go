package api

import (
	"context"

	"google.golang.org/grpc"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/identity"

	"pawl.dev/planner-svc/internal/reason"
)

// PlanSteps implements PlannerService.
func (s *Server) PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest) (*plannerv1.PlanStepsResponse, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	tc, err := s.contexts.Whole(p.Sub, req.GetContext())
	if err != nil {
		return nil, err
	}
	plan, err := s.plan(ctx, tc, req.GetBegin())
	if err != nil {
		return nil, err
	}
	name, err := s.contexts.Keep(p.Sub, req.GetContext().GetBase(), tc)
	if err != nil {
		return nil, err
	}
	return &plannerv1.PlanStepsResponse{Steps: plan.Steps, Usage: plan.Usage.Proto(), FlowName: plan.Name, FlowRisk: plan.Risk, ContextName: name}, nil
}

// StreamPlanSteps implements PlannerService.
func (s *Server) StreamPlanSteps(req *plannerv1.StreamPlanStepsRequest, stream grpc.ServerStreamingServer[plannerv1.StreamPlanStepsResponse]) error {
	plan, err := s.PlanSteps(stream.Context(), &plannerv1.PlanStepsRequest{Context: req.GetContext(), Begin: req.GetBegin()})
	if err != nil {
		return err
	}
	return stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_Plan{Plan: plan}})
}

func (s *Server) plan(ctx context.Context, tc *plannerv1.TaskContext, begin bool) (*reason.Beginning, error) {
	if begin {
		return s.reasoner.Begin(ctx, tc)
	}
	steps, usage, err := s.reasoner.PlanSteps(ctx, tc)
	if err != nil {
		return nil, err
	}
	return &reason.Beginning{Steps: steps, Usage: usage}, nil
}
