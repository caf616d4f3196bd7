package runner

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// Config holds a runner's limits and timeouts. A zero value means the default.
type Config struct {
	// PlannerTries bounds the attempts of a planner call (default 3).
	PlannerTries int
	// PlannerTimeout bounds each attempt (default 2 minutes).
	PlannerTimeout time.Duration
	// PoolPatience is how long a call waits while the MCP pool cannot be reached (default 30 s).
	PoolPatience time.Duration
	// StopGrace is how long a stopped call may take to report its outcome (default 5 s).
	StopGrace time.Duration
	// TextDelay is how long pieces of an answer are collected before they are committed (default 25 ms).
	TextDelay time.Duration
	// Replicas connects to the replicas of an MCP pool that has several; nil if the pool has one.
	Replicas Replicas
	// Lister keeps the catalogs of tools (default: a new one).
	Lister *toolcall.Lister
}

// Runner runs actions.
type Runner struct {
	cfg      Config
	planner  plannerv1.PlannerServiceClient
	pool     mcppoolv1.McpPoolServiceClient
	log      *slog.Logger
	streams  streamPool
	releases releaseQueue
	// poolAddrs remembers the addresses of the MCP pool's replicas by their pool_id.
	poolAddrs *otter.Cache[string, string]
	lister    *toolcall.Lister
	sends     toolcall.Sends
	// outputs bounds the outputs in planner calls, and readers the readers of other outputs, both of those that the history does not keep.
	outputs *serve.Budget
	readers chan struct{}
}

// New returns a runner.
func New(cfg Config, planner plannerv1.PlannerServiceClient, pool mcppoolv1.McpPoolServiceClient, log *slog.Logger) *Runner {
	cfg.PlannerTries = cmp.Or(cfg.PlannerTries, 3)
	cfg.PlannerTimeout = cmp.Or(cfg.PlannerTimeout, 2*time.Minute)
	cfg.PoolPatience = cmp.Or(cfg.PoolPatience, 30*time.Second)
	cfg.StopGrace = cmp.Or(cfg.StopGrace, 5*time.Second)
	cfg.TextDelay = cmp.Or(cfg.TextDelay, 25*time.Millisecond)
	return &Runner{
		cfg: cfg, planner: planner, pool: pool, log: log,
		poolAddrs: otter.Must(&otter.Options[string, string]{MaximumSize: maxPoolAddrs}),
		lister:    cmp.Or(cfg.Lister, toolcall.NewLister()),
		outputs:   serve.NewBudget("outputs", plannerOutputs), readers: make(chan struct{}, 1),
	}
}

// Close sends the queued releases of sessions and closes the idle streams.
func (r *Runner) Close() {
	r.releases.mu.Lock()
	r.releases.closed = true
	r.releases.mu.Unlock()
	r.flushReleases() // also waits for a flush that is already running
	r.streams.close()
}

// Session holds a task's data while it has an owner: its tools, its running call and the steps planned ahead.
type Session struct {
	r     *Runner
	id    string
	epoch uint64
	head  *storagev1.TaskHead
	log   *slog.Logger
	// Notify, if set, receives inputs that do not come from an action.
	Notify func(flow.Input)
	// ReadOutput reads the output in the task's fact with this seq from the journal.
	ReadOutput func(ctx context.Context, seq uint64) (string, error)

	// loading is a lock for loading the tools; unlike a mutex, it can be waited for with a context.
	loading chan struct{}

	mu     sync.Mutex // guards the fields below
	memory Memory
	tools  *toolset
	// calls holds the newest call of each lane.
	calls map[uint32]*call
	// ahead holds, by lane, the steps that are planned to follow the running one.
	ahead map[uint32][]*plannerv1.PlannedStep
	// base names the context that the planner keeps for the task's main line; it holds the first baseHistory entries of the history.
	base        string
	baseHistory int
	// stored holds, by the ids of their steps, the outputs that the history does not keep.
	stored map[string]storedOutput
	// acks are calls with durable results that are not acknowledged yet.
	acks []ack
	// used maps the id of each replica of the MCP pool that keeps something for the task to the id of an MCP server that the task uses there;
	// empty if the pool has one replica.
	used map[string]string
}

// Memory is what a task knows of what came before it; see flow.Memory. All lists begin with the oldest.
type Memory struct {
	Turns []Turn
	// Summary stands for the messages before Messages.
	Summary  string
	Messages []Message
	Steps    []*history.Entry
}

// Turn is an earlier turn of a conversation.
type Turn struct{ Question, Answer string }

// Message is a message of a topic.
type Message struct {
	Seq      uint64
	Sender   string
	FromSelf bool
	Text     string
}

// Session starts a session for an owner.
func (r *Runner) Session(id string, epoch uint64, head *storagev1.TaskHead, m Memory) *Session {
	return &Session{
		r: r, id: id, epoch: epoch, head: head, memory: m, log: r.log.With("task_id", id), loading: make(chan struct{}, 1),
		calls: map[uint32]*call{}, ahead: map[uint32][]*plannerv1.PlannedStep{}, stored: map[string]storedOutput{},
	}
}

// Run is an action that is ready to run. It passes its results to emit, in order. Its ctx is the ctx of Prepare.
type Run func(ctx context.Context, emit func(flow.Input))

// Prepare reads an action's arguments from the task, so that the action can run while the task changes.
func (s *Session) Prepare(ctx context.Context, t *flow.Task, log *history.Log, a flow.LaneAction) Run {
	switch action := a.Action.(type) {
	case flow.Call:
		st := step(t, action.Ordinal)
		if flow.IsReadOutput(st) {
			return s.callReadOutput(log, st, action.Attempt)
		}
		return s.callTool(ctx, t, a.Lane, st, action.Attempt, s.stepAfter(ctx, a.Lane, st, log))
	case flow.Attach:
		st := step(t, action.Ordinal)
		if flow.IsReadOutput(st) {
			return s.callReadOutput(log, st, action.Attempt)
		}
		return s.attachCall(ctx, a.Lane, st, action)
	case flow.Ask:
		s.setAhead(a.Lane, nil)
		return s.ask(t, log, flow.LaneOf(t.State, a.Lane), action.Question)
	}
	return nil
}

// ask returns the Run that answers a question of a lane.
func (s *Session) ask(t *flow.Task, log *history.Log, l *storagev1.Lane, q flow.Question) Run {
	switch q := q.(type) {
	case flow.Begin:
		return s.plan(s.context(t, log, l), l.GetId(), true)
	case flow.Plan:
		return s.plan(s.context(t, log, l), l.GetId(), false)
	case flow.Derive:
		return s.derive(s.context(t, log, l), step(t, q.Ordinal))
	case flow.Diagnose:
		return s.diagnose(s.context(t, log, l), step(t, q.Ordinal), q.Known)
	case flow.RefreshTool:
		return s.refreshTool(step(t, q.Ordinal))
	case flow.Fill:
		return s.fill(s.context(t, log, l), step(t, q.Ordinal))
	case flow.Answer:
		return s.answer(s.context(t, log, l), log, q.CutShort)
	case flow.CreatePlan:
		return s.createPlan(s.context(t, log, l), q)
	case flow.Think:
		return s.think(s.subtaskContext(t, log, l), subtaskOf(log, l), q)
	case flow.Reflect:
		return s.reflect(s.subtaskContext(t, log, l), subtaskOf(log, l))
	}
	return s.askAboutMessage(t, log, l, q)
}

// AsUser returns a context for calls in the name of the task's user, because a task outlives the credential it was created with. The
// session's other methods expect such a context.
func (s *Session) AsUser(ctx context.Context) context.Context {
	return identity.OnBehalfOf(ctx, s.head.GetUserSub())
}

// notifyWaiting logs that the task waits for a service that cannot be reached, and sends Blocked.
func (s *Session) notifyWaiting(service string, err error) {
	s.log.Warn("a service cannot be reached; the task waits for it", "service", service, "error", err)
	if s.Notify != nil {
		reason := errs.From(err)
		if s.head.GetUserSub() != identity.LocalSub {
			reason = reason.Public()
		}
		s.Notify(flow.Blocked{Reason: "waiting for the " + service + ", which cannot be reached: " + validUTF8(reason.Message)})
	}
}

// step returns the active step with this ordinal, or an empty step. Actions may read it later, because each transition changes a copy of
// the task's state.
func step(t *flow.Task, ordinal uint32) *storagev1.ActiveStep {
	if s := flow.ActiveStep(t.State, ordinal); s != nil {
		return s
	}
	return &storagev1.ActiveStep{Ordinal: ordinal}
}
