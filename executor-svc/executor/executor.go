package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/audit"
	"pawl.dev/services/outbound"
	"pawl.dev/services/seal"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/api"
	"pawl.dev/executor-svc/internal/engine"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	"pawl.dev/executor-svc/internal/flow/chat"
	"pawl.dev/executor-svc/internal/flow/coding"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/pipeline"
	"pawl.dev/executor-svc/internal/runner"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
	"pawl.dev/executor-svc/internal/topic"
	"pawl.dev/executor-svc/internal/webhook"
)

// ErrLocked is returned by New if another process uses the data folder.
var ErrLocked = journal.ErrLocked

// Config holds the data folder and the limits of tasks. Zero values mean the defaults, unless the field says otherwise.
type Config struct {
	// DataDir holds the journal. It is created if it is missing. Required.
	DataDir string `name:"data" placeholder:"DIR" type:"path" help:"Folder of the journal; created if it is missing."`
	// MaxRunning is how many tasks run at once.
	MaxRunning int `help:"Tasks that run at once; more are queued." default:"30"`
	// MaxRequests is how many tasks one user may create within RequestWindow; 0: any number. The local user of an
	// installation without keys is not limited.
	MaxRequests   int           `help:"Tasks that one user may create within the request window; 0 for any number." default:"5"`
	RequestWindow time.Duration `help:"Request window that --max-requests and --max-posts apply to." default:"15s"`
	// MaxPosts is how many messages and rollbacks one user may post to topics within RequestWindow; 0: any number. The local user is not limited.
	MaxPosts int `help:"Messages that one user may post to topics within the request window; 0 for any number." default:"30"`
	// MaxCompletions is how many completions of one user run at once; 0: any number. The local user is not limited.
	MaxCompletions int `help:"Completions of one user that run at once; 0 for any number." default:"64"`
	// MaxUserBytes is how many bytes of the journal one user's tasks and topics may take before new ones and posts are refused; 0: any number.
	MaxUserBytes int64 `help:"Bytes of the journal that one user's tasks and topics may take before new ones and messages are refused; 0 for any number." default:"0"`
	// Retention is how long ended tasks, and archived topics without new messages, are kept; 0: for ever.
	Retention time.Duration `help:"How long ended tasks, and archived topics after their last message, are kept; 0 for ever." default:"720h"`
	// MaxSteps bounds the steps of a task.
	MaxSteps uint32 `help:"Steps per task." default:"25"`
	// MaxFailedSteps is how many failed steps end a task.
	MaxFailedSteps uint32 `help:"Failed steps that end a task." default:"3"`
	// MaxAttempts bounds the attempts of a step.
	MaxAttempts uint32 `help:"Attempts per step." default:"5"`
	// MaxRecoveries bounds how often a task is recovered after crashes without progress.
	MaxRecoveries uint32 `aliases:"max-takeups" help:"Times that a task is recovered after crashes without progress." default:"5"`
	// DrainTimeout is how long running tool calls may take to end when the service stops.
	DrainTimeout time.Duration `help:"How long running tool calls may take to end when the service stops." default:"8s"`
	// AllowWebhookAddresses are ranges of addresses that webhooks may post to beside public ones, also without TLS.
	AllowWebhookAddresses []string `placeholder:"CIDR" help:"Private addresses to which webhooks may post, also without TLS, such as 127.0.0.0/8. May be repeated."`
	// WebhookKey encrypts the secrets of webhooks: env:NAME or file:PATH; empty: a key in the data folder.
	WebhookKey string `placeholder:"REF" help:"The key that encrypts the secrets of webhooks, env:NAME or file:PATH (32 bytes in base64); if empty, a file in the data folder."`
	// Audit is the file to which records of changes of webhooks are appended; empty: none are written.
	Audit string `placeholder:"FILE" type:"path" help:"File to which records of changes of webhooks are appended, one JSON object per line; if empty, none are written."`
	// WatchBytes bounds the bytes of events on their way to slow clients; one user gets at most half.
	WatchBytes int64 `help:"Bytes of events on their way to slow clients; one user gets at most half." default:"67108864"`
}

// Deps are what the executor uses.
type Deps struct {
	Planner grpc.ClientConnInterface
	// Pool also implements runner.Replicas if it reaches several processes.
	Pool grpc.ClientConnInterface
	Log  *slog.Logger
	// WrapJournal, if set, wraps the journal; see package executortest.
	WrapJournal func(journal.Journal) journal.Journal
}

// Service is the executor.
type Service struct {
	journal    journal.Journal
	audit      *audit.Log
	engine     *engine.Engine
	tasks      *api.Tasks
	hub        *topic.Hub
	dispatcher *topic.Dispatcher
	sender     *webhook.Sender
	pipeline   *pipeline.Server
}

// New opens the journal. No task runs before Run.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	if cfg.DataDir == "" {
		return nil, fmt.Errorf("the executor needs a data folder; set --data")
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	allowed, err := outbound.ParseRanges(cfg.AllowWebhookAddresses)
	if err != nil {
		return nil, err
	}
	records, err := audit.Open(cfg.Audit, time.Now, deps.Log)
	if err != nil {
		return nil, err
	}
	store, err := bolt.Open(filepath.Join(cfg.DataDir, journalFile))
	if err != nil {
		return nil, errors.Join(err, records.Close())
	}
	box, err := openBox(cfg)
	if err != nil {
		return nil, errors.Join(err, store.Close(), records.Close())
	}
	if err := store.Suspect(); err != nil {
		deps.Log.Error("the journal may lack its newest change", "error", err)
	}
	var j journal.Journal = store
	if deps.WrapJournal != nil {
		j = deps.WrapJournal(store)
	}
	watching := serve.NewBudget("watch", cmp.Or(cfg.WatchBytes, 64<<20))
	hub := topic.NewHub(j, watching)
	j = hub.Wrap(j)
	planner, pool := plannerv1.NewPlannerServiceClient(deps.Planner), mcppoolv1.NewMcpPoolServiceClient(deps.Pool)
	replicas, _ := deps.Pool.(runner.Replicas) // nil if there is one pool
	lister := toolcall.NewLister()
	flows := flowsByName(agent.New(), coding.Flow{}, chat.Flow{})
	e := engine.New(engine.Config{MaxRunning: cfg.MaxRunning, DrainTimeout: cfg.DrainTimeout, Retention: cfg.Retention}, engine.Deps{
		Journal: j, Watching: watching,
		Runner: runner.New(runner.Config{Replicas: replicas, Lister: lister}, planner, pool, deps.Log),
		Flows:  flows,
		Log:    deps.Log,
	})
	sender := webhook.New(webhook.Deps{Journal: j, Secrets: webhook.Secrets{Box: box}, Receivers: webhook.NewReceivers(allowed, nil), Log: deps.Log, Audit: records})
	tasks := api.NewTasks(api.Deps{
		Engine: e, Journal: j, Hub: hub, Sender: sender, Planner: planner, Pool: pool, Flows: flows, Log: deps.Log, Limits: limits(cfg),
		Requests: cfg.MaxRequests, Posts: cfg.MaxPosts, Window: cmp.Or(cfg.RequestWindow, 15*time.Second), UserBytes: cfg.MaxUserBytes,
		StoreInfo: store.Info,
	})
	return &Service{
		journal: j, audit: records, engine: e, tasks: tasks, hub: hub, dispatcher: &topic.Dispatcher{Journal: j, Hub: hub, Tasks: tasks, Log: deps.Log}, sender: sender,
		pipeline: pipeline.NewServer(pipeline.Deps{Planner: planner, Pool: pool, Tasks: tasks, Lister: lister, Replicas: replicas != nil, MaxPerUser: cfg.MaxCompletions, Log: deps.Log}),
	}, nil
}

// openBox opens the key that encrypts the secrets of webhooks.
func openBox(cfg Config) (*seal.Box, error) {
	keys, err := seal.OpenKeys(seal.Source{Ref: cfg.WebhookKey, Flag: "--webhook-key", Getenv: os.LookupEnv, File: filepath.Join(cfg.DataDir, webhookKeyFile)})
	if err != nil {
		return nil, err
	}
	return seal.NewBox(keys...)
}

func flowsByName(all ...flow.Flow) map[string]flow.Flow {
	flows := make(map[string]flow.Flow, len(all))
	for _, f := range all {
		flows[f.Kind()] = f
	}
	return flows
}

func limits(cfg Config) *storagev1.Limits {
	return &storagev1.Limits{
		MaxSteps: cmp.Or(cfg.MaxSteps, 25), MaxFailedSteps: cmp.Or(cfg.MaxFailedSteps, 3),
		MaxAttempts: cmp.Or(cfg.MaxAttempts, 5), MaxRecoveries: cmp.Or(cfg.MaxRecoveries, 5),
	}
}

// Register adds ExecutorService, AgentService, TopicService, WebhookService and CompletionService to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	s.tasks.Register(r)
	s.pipeline.Register(r)
}

// Run resumes tasks, dispatches messages of topics to agents, delivers events to webhooks, and runs tasks until ctx is done. It returns once running calls have ended, or soon after
// DrainTimeout.
func (s *Service) Run(ctx context.Context) error {
	var dispatching sync.WaitGroup
	dispatching.Go(func() { s.dispatcher.Run(ctx) })
	dispatching.Go(func() { s.sender.Run(ctx) })
	defer dispatching.Wait()
	stop := context.AfterFunc(ctx, s.hub.Stop)
	defer stop()
	return s.engine.Run(ctx)
}

// Running returns how many tasks have an owner now.
func (s *Service) Running() int { return s.engine.Running() }

// Healthy returns why tasks cannot continue now, or nil.
func (s *Service) Healthy() error { return s.engine.StorageError() }

// Close releases the journal and the audit file; call it after Run has returned.
func (s *Service) Close() error { return errors.Join(s.journal.Close(), s.audit.Close()) }
