package api

import (
	"context"

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
	playbooks Playbooks
	models    *models.Book
	planWith  *plan.Models
}

// Playbooks parses playbooks; it is implemented by playbook.Planner.
type Playbooks interface {
	Parse(text string) (*playbook.Playbook, error)
}

var _ plannerv1.PlannerServiceServer = (*Server)(nil)

// New returns the handlers. Contexts of tasks are kept in the store, for requests that continue them.
func New(planners *plan.Planners, contexts *contextcache.Store, playbooks Playbooks, named *models.Book, planWith *plan.Models) *Server {
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

// prepare completes the request's context, checks the request and returns the planner to ask. A context that is kept for one user does not
// exist for another.
func (s *Server) prepare(ctx context.Context, req taskRequest) (plan.Planner, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	whole, err := s.contexts.Whole(p.Sub, req.GetContext())
	if err != nil {
		return nil, err
	}
	if whole != req.GetContext() {
		m := req.ProtoReflect()
		m.Set(m.Descriptor().Fields().ByName("context"), protoreflect.ValueOfMessage(whole.ProtoReflect()))
	}
	if err := plan.Check(req); err != nil {
		return nil, err
	}
	return s.planners.Choose(whole)
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
	res := &plannerv1.ListModelsResponse{}
	byName := map[string]*plannerv1.Model{}
	for i, p := range s.planners.List() {
		info := p.Info()
		m := &plannerv1.Model{Name: info.Name, Description: info.Description, IsDefault: i == 0, CanPlan: true}
		byName[info.Name] = m
		res.Models = append(res.Models, m)
	}
	for i, named := range s.models.List() {
		info := named.Info()
		m := byName[info.Name]
		if m == nil {
			m = &plannerv1.Model{Name: info.Name, Description: info.Description}
			res.Models = append(res.Models, m)
		}
		m.CanGenerate, m.IsGenerateDefault = true, i == 0
	}
	if byName[req.GetName()] != nil || req.GetName() == "" {
		return res, nil
	}
	m, err := s.planners.Find(req.GetName())
	if err != nil {
		return nil, err
	}
	res.Models = append(res.Models, &plannerv1.Model{Name: m.Info().Name, Description: m.Info().Description, CanPlan: true, CanGenerate: true})
	return res, nil
}
