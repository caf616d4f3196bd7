// Package planner is the planner service as a part of a program: it answers what an executor asks about tasks, with models.
// What it keeps of them is a copy that it may lose at any time. It knows no store, no MCP server and no other service.
package planner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/api"
	"pawl.dev/planner-svc/internal/contextcache"
	"pawl.dev/planner-svc/internal/models"
	"pawl.dev/planner-svc/internal/offline"
	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/playbook"
)

// MaxRequestBytes is how large a request the server should take: it brings the whole history of a task, of which each
// output may have 4 MiB.
const MaxRequestBytes = 64 << 20

// Config is what an operator decides.
type Config struct {
	DefaultModel string `placeholder:"NAME" default:"offline" help:"The model of tasks that name none (${default})."` // "" is `offline`

	Models string `type:"path" placeholder:"FILE" help:"File of named language models (YAML or JSON, docs/models.md), which plan tasks and answer Generate."` // "": there are none

	ModelTries int `placeholder:"N" default:"3" help:"How often a model's reply is asked for before the call fails, the first time included (${default})."` // 0 is 3

	KeptContexts     int `placeholder:"N" default:"1000" help:"How many tasks' contexts are kept, so that requests need not repeat them; -1 keeps none (${default})."` // 0 is 1000
	KeptContextBytes int `placeholder:"BYTES" default:"67108864" help:"How large the kept contexts may be together (${default})."`                                     // 0 is 64 MiB
}

// What is kept by default. A task has about 30 KiB of tools, and outputs of a few KiB.
const (
	defaultContexts     = 1000
	defaultContextBytes = 64 << 20
)

// Deps is what the service stands on.
type Deps struct {
	Log *slog.Logger // nil: nothing is logged
}

// Service is the planner.
type Service struct {
	server *api.Server
	named  *models.Book
}

// New makes the service. An unknown default model is an error that names the models.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	cfg.DefaultModel = cmp.Or(cfg.DefaultModel, offline.Name)
	named, err := models.Open(cfg.Models, []string{offline.Name, plan.Playbook}, os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	planWith, err := plan.NewModels(cfg.ModelTries, cmp.Or(deps.Log, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	deterministic := offline.New()
	playbooks := playbook.New(deterministic)
	list := []plan.Planner{deterministic, playbooks}
	if cfg.DefaultModel != offline.Name && cfg.DefaultModel != plan.Playbook {
		if _, err := named.Add(cfg.DefaultModel); err != nil {
			return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG, "the default model: %s", errs.From(err).Message)
		}
	}
	for _, m := range named.List() {
		list = append(list, planWith.Planner(m))
	}
	find := func(name string) (plan.Planner, error) {
		m, err := named.Find(name)
		if err != nil {
			return nil, err
		}
		return planWith.Planner(m), nil
	}
	planners, err := plan.NewPlanners(cfg.DefaultModel, find, list...)
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	contexts := contextcache.New(contextcache.Limits{Count: cmp.Or(cfg.KeptContexts, defaultContexts), Bytes: cmp.Or(cfg.KeptContextBytes, defaultContextBytes)})
	return &Service{server: api.New(planners, contexts, playbooks, named, planWith), named: named}, nil
}

// Register adds PlannerService to a server or an in-process connection.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	plannerv1.RegisterPlannerServiceServer(r, s.server)
}

// Run returns when ctx is done. The planner does nothing by itself.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Close releases what New took: connections to the providers of models.
func (s *Service) Close() error {
	s.named.Close()
	return nil
}
