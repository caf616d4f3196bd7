package api

import (
	"context"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/identity"

	"pawl.dev/planner-svc/internal/contexts"
	"pawl.dev/planner-svc/internal/models"
	"pawl.dev/planner-svc/internal/playbook"
	"pawl.dev/planner-svc/internal/reason"
)

// Server implements PlannerService.
type Server struct {
	plannerv1.UnimplementedPlannerServiceServer
	reasoner  *reason.Reasoner
	contexts  *contexts.Store
	playbooks Playbooks
	models    *models.Book
}

// Playbooks parses playbooks: a playbook.Model.
type Playbooks interface {
	Parse(text string) (*playbook.Playbook, error)
}

var _ plannerv1.PlannerServiceServer = (*Server)(nil)

// New makes the handlers over a reasoner, and over the models that can be asked as they are. What requests tell about tasks is kept in the
// store, for those that go on from there.
func New(r *reason.Reasoner, kept *contexts.Store, playbooks Playbooks, named *models.Book) *Server {
	return &Server{reasoner: r, contexts: kept, playbooks: playbooks, models: named}
}

// caller refuses calls of nobody.
func caller(ctx context.Context) error {
	_, err := identity.FromContext(ctx)
	return err
}

// whole refuses calls of nobody, and completes the context that a request goes on from. What is kept for one user is not there for
// another.
func (s *Server) whole(ctx context.Context, tc *plannerv1.TaskContext) (*plannerv1.TaskContext, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	return s.contexts.Whole(p.Sub, tc)
}

// GetFlowName implements PlannerService.
func (s *Server) GetFlowName(ctx context.Context, req *plannerv1.GetFlowNameRequest) (*plannerv1.GetFlowNameResponse, error) {
	tc, err := s.whole(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	name, usage, err := s.reasoner.FlowName(ctx, tc)
	if err != nil {
		return nil, err
	}
	return &plannerv1.GetFlowNameResponse{Name: name, Usage: usage.Proto()}, nil
}

// AssessFlowRisk implements PlannerService.
func (s *Server) AssessFlowRisk(ctx context.Context, req *plannerv1.AssessFlowRiskRequest) (*plannerv1.AssessFlowRiskResponse, error) {
	tc, err := s.whole(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	risk, usage, err := s.reasoner.FlowRisk(ctx, tc)
	if err != nil {
		return nil, err
	}
	return &plannerv1.AssessFlowRiskResponse{Risk: risk, Usage: usage.Proto()}, nil
}

// CreateNextStep implements PlannerService.
func (s *Server) CreateNextStep(ctx context.Context, req *plannerv1.CreateNextStepRequest) (*plannerv1.CreateNextStepResponse, error) {
	tc, err := s.whole(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	toolID, description, usage, err := s.reasoner.NextStep(ctx, tc)
	if err != nil {
		return nil, err
	}
	return &plannerv1.CreateNextStepResponse{ToolId: toolID, Description: description, Usage: usage.Proto()}, nil
}

// GetFirstInputParams implements PlannerService.
func (s *Server) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	tc, err := s.whole(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	req.Context = tc
	input, missing, usage, err := s.reasoner.FirstInput(ctx, req)
	if err != nil {
		return nil, err
	}
	return &plannerv1.GetFirstInputParamsResponse{InputJson: input, Missing: missing, Usage: usage.Proto()}, nil
}

// FillParams implements PlannerService.
func (s *Server) FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	tc, err := s.whole(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	req.Context = tc
	input, usage, err := s.reasoner.FillParams(ctx, req)
	if err != nil {
		return nil, err
	}
	return &plannerv1.FillParamsResponse{InputJson: input, Usage: usage.Proto()}, nil
}

// AssessToolRisk implements PlannerService.
func (s *Server) AssessToolRisk(ctx context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error) {
	tc, err := s.whole(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	risk, usage, err := s.reasoner.ToolRisk(ctx, tc, req.GetToolId(), req.GetInputJson())
	if err != nil {
		return nil, err
	}
	return &plannerv1.AssessToolRiskResponse{Risk: risk, Usage: usage.Proto()}, nil
}

// CheckPlaybook implements PlannerService.
func (s *Server) CheckPlaybook(ctx context.Context, req *plannerv1.CheckPlaybookRequest) (*plannerv1.CheckPlaybookResponse, error) {
	if err := caller(ctx); err != nil {
		return nil, err
	}
	p, err := s.playbooks.Parse(req.GetPlaybook())
	if err != nil {
		return nil, err
	}
	return &plannerv1.CheckPlaybookResponse{Name: p.Name, StepCount: uint32(len(p.Steps)), ToolIds: p.ToolIDs(), Goal: p.Goal}, nil
}
