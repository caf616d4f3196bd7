package api

import (
	"context"

	"google.golang.org/grpc"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/identity"
)

// IsParamError implements PlannerService.
func (s *Server) IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	tc, err := s.whole(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	req.Context = tc
	is, usage, err := s.reasoner.IsParamError(ctx, req)
	if err != nil {
		return nil, err
	}
	return &plannerv1.IsParamErrorResponse{IsParamError: is, Usage: usage.Proto()}, nil
}

// DescribeError implements PlannerService.
func (s *Server) DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	tc, err := s.whole(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	req.Context = tc
	message, usage, err := s.reasoner.DescribeError(ctx, req)
	if err != nil {
		return nil, err
	}
	return &plannerv1.DescribeErrorResponse{Message: message, Usage: usage.Proto()}, nil
}

// GetMissingParams implements PlannerService.
func (s *Server) GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	tc, err := s.whole(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	req.Context = tc
	form, usage, err := s.reasoner.MissingParams(ctx, req)
	if err != nil {
		return nil, err
	}
	return &plannerv1.GetMissingParamsResponse{SchemaJson: form, Usage: usage.Proto()}, nil
}

// GenerateAnswer implements PlannerService. Pieces are held back by one, so that the usage goes with the last.
func (s *Server) GenerateAnswer(req *plannerv1.GenerateAnswerRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateAnswerResponse]) error {
	ctx := stream.Context()
	p, err := identity.FromContext(ctx)
	if err != nil {
		return err
	}
	base := req.GetContext().GetBase()
	if req.Context, err = s.contexts.Whole(p.Sub, req.GetContext()); err != nil {
		return err
	}
	var held *plannerv1.GenerateAnswerResponse
	usage, err := s.reasoner.Answer(ctx, req, func(piece string) error {
		if piece == "" {
			return nil
		}
		if held != nil {
			if err := stream.Send(held); err != nil {
				return err
			}
		}
		held = &plannerv1.GenerateAnswerResponse{Text: piece}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if held == nil {
		held = &plannerv1.GenerateAnswerResponse{}
	}
	held.Usage = usage.Proto()
	// Nothing is asked of a task after its answer. One that asks again all the same tells its context whole.
	s.contexts.Forget(p.Sub, base)
	return stream.Send(held)
}
