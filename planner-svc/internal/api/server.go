// Package api is the gRPC face of the planner: each handler checks who calls, asks a planner, and answers in the contract's
// words. It holds no reasoning of its own.
package api

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/identity"

	"pawl.dev/planner-svc/internal/contextcache"
	"pawl.dev/planner-svc/internal/models"
	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/playbook"
)

// Server implements PlannerService.
type Server struct {
	plannerv1.UnimplementedPlannerServiceServer
	planners  *plan.Planners
	contexts  *contextcache.Store
	playbooks *playbook.Planner
	models    *models.Book
	planWith  *plan.Models
}

var _ plannerv1.PlannerServiceServer = (*Server)(nil)

// New returns the handlers. Contexts of tasks are kept in the store, for requests that continue them.
func New(planners *plan.Planners, contexts *contextcache.Store, playbooks *playbook.Planner, named *models.Book, planWith *plan.Models) *Server {
	return &Server{planners: planners, contexts: contexts, playbooks: playbooks, models: named, planWith: planWith}
}

// caller refuses calls without a principal.
func caller(ctx context.Context) error {
	_, err := identity.FromContext(ctx)
	return err
}

// taskRequest is a request about a task.
type taskRequest interface {
	proto.Message
	GetContext() *plannerv1.TaskContext
}

// prepare completes the request's context, checks the request and returns the planner to ask, and the user. A context that is kept for one
// user does not exist for another.
func (s *Server) prepare(ctx context.Context, req taskRequest) (planner plan.Planner, user string, err error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, "", err
	}
	whole, err := s.contexts.Whole(p.Sub, req.GetContext())
	if err != nil {
		return nil, "", err
	}
	if whole != req.GetContext() {
		m := req.ProtoReflect()
		m.Set(m.Descriptor().Fields().ByName("context"), protoreflect.ValueOfMessage(whole.ProtoReflect()))
	}
	if err := plan.Check(req); err != nil {
		return nil, "", err
	}
	planner, err = s.planners.Choose(whole)
	return planner, p.Sub, err
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
	if req.InputsJson != nil {
		if _, err := p.FillInputs(req.GetInputsJson()); err != nil {
			return nil, err
		}
	}
	return &plannerv1.CheckPlaybookResponse{
		Name: p.Name, StepCount: uint32(len(p.Steps)), ToolIds: p.ToolIDs(), Goal: p.Goal, InputsSchemaJson: p.Inputs.Schema,
	}, nil
}

// ListModels implements PlannerService.
func (s *Server) ListModels(ctx context.Context, req *plannerv1.ListModelsRequest) (*plannerv1.ListModelsResponse, error) {
	if err := caller(ctx); err != nil {
		return nil, err
	}
	planners := s.planners.List()
	if name := req.GetName(); name != "" && !slices.ContainsFunc(planners, func(p plan.Planner) bool { return p.Info().Name == name }) {
		p, err := s.planners.Find(name)
		if err != nil {
			return nil, err
		}
		planners = append(slices.Clip(planners), p)
	}
	res := &plannerv1.ListModelsResponse{}
	for i, p := range planners {
		info := p.Info()
		_, generates := p.(*plan.Model)
		first := generates && len(s.models.List()) > 0 && s.models.List()[0].Info().Name == info.Name
		res.Models = append(res.Models, &plannerv1.Model{
			Name: info.Name, Description: info.Description, IsDefault: i == 0, CanPlan: true, CanGenerate: generates, IsGenerateDefault: first,
		})
	}
	return res, nil
}
