// Package api implements PlannerService: it checks callers and requests, keeps the contexts of tasks, and passes requests to planners
// and models. It plans nothing itself.
package api

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/maypok86/otter/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/digest"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/models"
	"pawl.dev/planner-svc/internal/offline"
	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/playbook"
)

// server implements PlannerService.
type server struct {
	plannerv1.UnimplementedPlannerServiceServer
	planners  []plan.Planner // the built-in planners and the planners of configured models, the default first
	playbooks *playbook.Planner
	offline   *offline.Planner
	models    *models.Book
	factory   *plan.Factory
	contexts  *contextStore
	catalogs  *otter.Cache[string, *catalog.Catalog] // by hash
}

// keptCatalogs bounds the catalogs that are kept, in bytes.
const keptCatalogs = 32 << 20

// New returns the handlers. defaultModel plans the tasks that name no model: it is `offline`, a model in book, or PROVIDER:MODEL, which New adds to book.
// At most keptContexts contexts of tasks are kept, with about keptBytes bytes in total.
func New(defaultModel string, book *models.Book, factory *plan.Factory, keptContexts, keptBytes int) (plannerv1.PlannerServiceServer, error) {
	offlinePlanner := offline.New()
	s := &server{playbooks: playbook.New(offlinePlanner), offline: offlinePlanner, models: book, factory: factory, contexts: newContextStore(keptContexts, keptBytes)}
	s.catalogs = otter.Must(&otter.Options[string, *catalog.Catalog]{
		MaximumWeight: keptCatalogs, Weigher: func(_ string, c *catalog.Catalog) uint32 { return uint32(min(c.Size(), math.MaxUint32)) },
	})
	s.planners = []plan.Planner{offlinePlanner, s.playbooks}
	if defaultModel == plan.Playbook {
		return nil, invalidDefault("%q cannot be the default, because it plans only tasks with a playbook; name a model", plan.Playbook)
	}
	if defaultModel != offline.Name {
		if err := book.Add(defaultModel); err != nil {
			return nil, invalidDefault("%s", errs.From(err).Message)
		}
	}
	for _, m := range book.List() {
		at := len(s.planners)
		if m.Info().Name == defaultModel {
			at = 0
		}
		s.planners = slices.Insert(s.planners, at, plan.Planner(factory.Planner(m)))
	}
	return s, nil
}

func invalidDefault(format string, args ...any) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG, "the default model: "+format, args...)
}

func hasName(name string) func(plan.Planner) bool {
	return func(p plan.Planner) bool { return p.Info().GetName() == name }
}

// taskRequest is a request about a task.
type taskRequest interface {
	proto.Message
	GetContext() *plannerv1.TaskContext
}

// prepared is what a request about a task needs.
type prepared struct {
	planner plan.Planner
	user    string
	whole   *plannerv1.TaskContext // for the task's next request to continue; its catalogs have no tools
}

// prepare completes the request's context, gives it the tools of its catalogs, and checks the request. It returns the context to call the planner with.
func (s *server) prepare(ctx context.Context, req taskRequest) (context.Context, *prepared, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, nil, err
	}
	whole, err := s.contexts.complete(p.Sub, req.GetContext())
	if err != nil {
		return nil, nil, err
	}
	tools, err := s.tools(whole)
	if err != nil {
		return nil, nil, err
	}
	shown := whole
	if len(whole.GetCatalogs()) > 0 {
		shown = shallowCopy(whole)
		shown.Tools, shown.Catalogs = tools.Tools(), nil
	}
	if shown != req.GetContext() {
		m := req.ProtoReflect()
		m.Set(m.Descriptor().Fields().ByName("context"), protoreflect.ValueOfMessage(shown.ProtoReflect()))
	}
	if err := check(req); err != nil {
		return nil, nil, err
	}
	planner, err := s.choose(whole)
	return catalog.NewContext(ctx, tools), &prepared{planner, p.Sub, whole}, err
}

// tools returns the tools of a whole context. It keeps the catalogs that come with their tools, and leaves only the hashes in the context. If it lacks a
// catalog, the error is CONTEXT_MISSING.
func (s *server) tools(whole *plannerv1.TaskContext) (set catalog.Set, err error) {
	var missing []string
	for i, c := range whole.GetCatalogs() {
		known, ok := s.catalogs.GetIfPresent(c.GetHash())
		switch {
		case len(c.GetTools()) > 0:
			var hash string
			if known, hash, err = s.keepCatalog(c.GetTools()); err != nil {
				return nil, err
			}
			whole.Catalogs[i] = &plannerv1.Catalog{Hash: hash}
		case !ok:
			missing = append(missing, c.GetHash())
		}
		set = append(set, known)
	}
	if len(missing) > 0 {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING,
			"the planner does not have the tools of %d catalogs; send them with the request", len(missing)).With("catalogs", strings.Join(missing, ","))
	}
	if len(whole.GetTools()) > 0 {
		own, _, err := s.keepCatalog(whole.GetTools())
		if err != nil {
			return nil, err
		}
		set = append(set, own)
	}
	return set, nil
}

// keepCatalog returns the catalog of a list of tools and its hash, which it computes because any user may send a catalog, and all share it.
func (s *server) keepCatalog(tools []*commonv1.Tool) (*catalog.Catalog, string, error) {
	hash, err := digest.Of(tools)
	if err != nil {
		return nil, "", plan.Invalid("context.tools", "the tools: %w", err)
	}
	if known, ok := s.catalogs.GetIfPresent(hash); ok {
		return known, hash, nil
	}
	c := catalog.New(tools)
	s.catalogs.Set(hash, c)
	return c, hash, nil
}

// check validates the constraints that the contract cannot express: the tool is one of the task's, inputs are JSON objects, and a person's
// answer is JSON.
func check(req taskRequest) error {
	if r, ok := req.(interface{ GetToolId() string }); ok && catalog.Find(req.GetContext().GetTools(), r.GetToolId()) == nil {
		return plan.Invalid("tool_id", "the tool %q is not one of the task's tools", r.GetToolId())
	}
	field, input := "", ""
	switch r := req.(type) {
	case interface{ GetInputJson() string }:
		field, input = "input_json", r.GetInputJson()
	case *plannerv1.GetFirstInputParamsRequest:
		field, input = "failed_input_json", r.GetFailedInputJson()
	}
	if _, err := schema.ExactObject(nil, input); err != nil {
		return plan.Invalid(field, "the input: %w", err)
	}
	if r, ok := req.(*plannerv1.FillParamsRequest); ok && r.GetContentJson() != "" && !json.Valid([]byte(r.GetContentJson())) {
		return plan.Invalid("content_json", "the person's answer is not valid JSON")
	}
	return nil
}

// choose returns the planner for a task: s.playbooks if the task has a playbook, otherwise the named model or the default. It is an error to name
// a model other than `playbook` together with a playbook.
func (s *server) choose(tc *plannerv1.TaskContext) (plan.Planner, error) {
	name, hasPlaybook := tc.GetModel(), strings.TrimSpace(tc.GetPlaybook()) != ""
	switch {
	case hasPlaybook && name != "" && name != plan.Playbook:
		return nil, plan.Invalid("context.model", "the task has a playbook, so its model is %q; leave the model %q out, or the playbook", plan.Playbook, name)
	case hasPlaybook:
		return s.playbooks, nil
	case name == plan.Playbook:
		return nil, plan.Invalid("context.playbook", "the model %q needs a playbook; give one, or another model", plan.Playbook)
	case name == "":
		return s.planners[0], nil
	}
	return s.find(name)
}

// find returns the planner of that name.
func (s *server) find(name string) (plan.Planner, error) {
	if i := slices.IndexFunc(s.planners, hasName(name)); i >= 0 {
		return s.planners[i], nil
	}
	m, err := s.models.Find(name)
	if err != nil {
		return nil, plan.Invalid("model", "%s; the built-in models are %s, %s", errs.From(err).Message, offline.Name, plan.Playbook)
	}
	return s.factory.Planner(m), nil
}

func (s *server) CheckPlaybook(ctx context.Context, req *plannerv1.CheckPlaybookRequest) (*plannerv1.CheckPlaybookResponse, error) {
	if _, err := identity.FromContext(ctx); err != nil {
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

func (s *server) RankTools(ctx context.Context, req *plannerv1.RankToolsRequest) (*plannerv1.RankToolsResponse, error) {
	if _, err := identity.FromContext(ctx); err != nil {
		return nil, err
	}
	return s.offline.RankTools(req), nil
}

func (s *server) ListModels(ctx context.Context, req *plannerv1.ListModelsRequest) (*plannerv1.ListModelsResponse, error) {
	if _, err := identity.FromContext(ctx); err != nil {
		return nil, err
	}
	planners := slices.Clip(s.planners)
	if name := req.GetName(); name != "" && !slices.ContainsFunc(planners, hasName(name)) {
		p, err := s.find(name)
		if err != nil {
			return nil, err
		}
		planners = append(planners, p)
	}
	res := &plannerv1.ListModelsResponse{}
	for i, p := range planners {
		m := p.Info()
		m.IsDefault = i == 0
		m.IsGenerateDefault = m.GetCanGenerate() && len(s.models.List()) > 0 && s.models.List()[0].Info().Name == m.GetName()
		res.Models = append(res.Models, m)
	}
	return res, nil
}
