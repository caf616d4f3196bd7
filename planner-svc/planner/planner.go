// Package planner is the planner service as a library: it plans an executor's tasks with models.
// It caches task contexts in memory, and uses no store, no MCP server and no other service.
package planner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"google.golang.org/grpc"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/api"
	"pawl.dev/planner-svc/internal/models"
	"pawl.dev/planner-svc/internal/offline"
	"pawl.dev/planner-svc/internal/plan"
)

// MaxRequestBytes is the largest request that the server should accept. A request may hold the whole history of a task.
const MaxRequestBytes = 64 << 20

// Config holds the settings of the planner service.
type Config struct {
	DefaultModel string `placeholder:"NAME" default:"offline" help:"The model of tasks that name none (${default})."` // "" is `offline`

	Models string `type:"path" placeholder:"FILE" help:"File of named language models (YAML or JSON, docs/models.md), which plan tasks and answer requests that come from MCP servers (sampling) or to POST /v1/planner:generate."` // "": no file

	ModelTries int `placeholder:"N" default:"3" help:"How many attempts a model gets to give a valid reply before the call fails (${default})."` // 0 is 3

	// MaxModelRequests bounds the concurrent requests of one user to models; 0: any number. The local user is not limited.
	MaxModelRequests int `placeholder:"N" default:"64" help:"Requests to models that one user may have running; 0 for any number (${default})."`

	KeptContexts     int `placeholder:"N" default:"1000" help:"How many tasks' contexts are kept, so that requests need not repeat them; -1 keeps none (${default})."` // 0 is 1000
	KeptContextBytes int `placeholder:"BYTES" default:"67108864" help:"The largest total size of the kept contexts (${default})."`                                     // 0 is 64 MiB
}

// Deps are the dependencies of the service.
type Deps struct {
	Log *slog.Logger // nil: nothing is logged
}

// Service is the planner.
type Service struct {
	server plannerv1.PlannerServiceServer
	book   *models.Book
}

// New makes the service. An unknown default model is an error.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	book, err := models.Open(cfg.Models, []string{offline.Name, plan.Playbook}, os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	book.MaxPerUser = cfg.MaxModelRequests
	factory := plan.NewFactory(cfg.ModelTries, cmp.Or(deps.Log, slog.New(slog.DiscardHandler)))
	server, err := api.New(cmp.Or(cfg.DefaultModel, offline.Name), book, factory, cmp.Or(cfg.KeptContexts, 1000), cmp.Or(cfg.KeptContextBytes, 64<<20))
	if err != nil {
		return nil, err
	}
	return &Service{server: server, book: book}, nil
}

// Register adds PlannerService to a server or an in-process connection.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	plannerv1.RegisterPlannerServiceServer(r, s.server)
}

// Run waits until ctx is done. The planner has no background work.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Close closes the idle connections to the models' providers. Call it when no request is running.
func (s *Service) Close() error {
	s.book.Close()
	return nil
}
