package runner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Config bounds what a runner does. Zero values mean the defaults.
type Config struct {
	// PlannerTries is how often a planner call is tried in all (A18); 3.
	PlannerTries int
	// PlannerTimeout is the longest that one planner call may take; 2 minutes.
	PlannerTimeout time.Duration
	// PoolPatience is how long a call waits for a pool that cannot be reached; 30 s.
	PoolPatience time.Duration
	// StopGrace is how long a call that was told to stop may take to say what came of it; 5 s.
	StopGrace time.Duration
	// TextDelay is how long pieces of an answer are collected before they are committed; 25 ms.
	TextDelay time.Duration
	// Replicas reaches single pool processes where there are several; nil: there is one.
	Replicas Replicas
}

// Runner runs effects.
type Runner struct {
	cfg     Config
	planner plannerv1.PlannerServiceClient
	pool    mcppoolv1.McpPoolServiceClient
	log     *slog.Logger
	places  places
	idle    idle
	endings endings
}

// New returns a runner that asks this planner and this pool.
func New(cfg Config, planner plannerv1.PlannerServiceClient, pool mcppoolv1.McpPoolServiceClient, log *slog.Logger) *Runner {
	if cfg.PlannerTries == 0 {
		cfg.PlannerTries = 3
	}
	if cfg.PlannerTimeout == 0 {
		cfg.PlannerTimeout = 2 * time.Minute
	}
	if cfg.PoolPatience == 0 {
		cfg.PoolPatience = 30 * time.Second
	}
	if cfg.StopGrace == 0 {
		cfg.StopGrace = 5 * time.Second
	}
	if cfg.TextDelay == 0 {
		cfg.TextDelay = 25 * time.Millisecond
	}
	return &Runner{cfg: cfg, planner: planner, pool: pool, log: log}
}

// Session is what a runner keeps for a task while it has an owner: its tools, its running call, and what the planner said
// that comes next.
type Session struct {
	r      *Runner
	id     string
	epoch  uint64
	head   *storagev1.TaskHead
	rounds []*plannerv1.Round
	log    *slog.Logger

	// loading is held by the one that loads the tools.
	loading chan struct{}

	mu    sync.Mutex // guards what follows
	tools *toolset
	call  *call
	// wait is where calls are waited for under an effect's context, until drop ends it.
	under, wait context.Context
	drop        context.CancelFunc
	// ahead is what follows if the running step succeeds.
	ahead []*plannerv1.PlannedStep
	// base names the context that the planner has, with baseHistory entries of the history.
	base        string
	baseHistory int
	// acks holds calls whose results are durable, and of which the pool was not told yet.
	acks []ack
	// lanes are the streams that calls can go on, by server; left says that there is to be none any more.
	lanes map[string]*lane
	left  bool
	// released: the task needs its connections no more; parted: the pools were told the last of the session.
	released, parted bool
	// used are the pools that have something of the task's, each with a server; only where there are several.
	used map[string]string
}

// Session starts a session for an owner. rounds are the earlier questions and answers of the conversation.
func (r *Runner) Session(id string, epoch uint64, head *storagev1.TaskHead, rounds []*plannerv1.Round) *Session {
	return &Session{r: r, id: id, epoch: epoch, head: head, rounds: rounds, log: r.log.With("task_id", id), loading: make(chan struct{}, 1)}
}

// Run is an effect ready to be run: emit takes what comes of it, in order.
type Run func(ctx context.Context, emit func(flow.Input))

// Prepare reads what an effect needs from the task as it is now, so that the effect can run while the task moves on.
func (s *Session) Prepare(t *flow.Task, log *history.Log, e flow.Effect) Run {
	switch e := e.(type) {
	case flow.Call:
		return s.callTool(t, step(t, e.Ordinal), e.Attempt, s.follow(log))
	case flow.Attach:
		return s.attachCall(step(t, e.Ordinal), e)
	}
	s.setAhead(nil)
	switch e := e.(type) {
	case flow.Begin:
		return s.begin(s.context(t, log))
	case flow.Plan:
		return s.plan(s.context(t, log))
	case flow.Derive:
		return s.derive(s.context(t, log), step(t, e.Ordinal))
	case flow.Judge:
		return s.judge(s.context(t, log), step(t, e.Ordinal), e.Known)
	case flow.Look:
		return s.look(step(t, e.Ordinal))
	case flow.Fill:
		return s.fill(s.context(t, log), step(t, e.Ordinal))
	case flow.Answer:
		return s.answer(s.context(t, log), e.CutShort)
	}
	return nil
}

// asUser makes calls in the name of the task's user: a task outlives the credential of whoever started it.
func (s *Session) asUser(ctx context.Context) context.Context {
	return identity.OnBehalfOf(ctx, s.head.GetUserSub())
}

// step returns a copy-free view of an active step; engine states are never changed once they were handed out.
func step(t *flow.Task, ordinal uint32) *storagev1.ActiveStep {
	for _, s := range t.State.GetActiveSteps() {
		if s.GetOrdinal() == ordinal {
			return s
		}
	}
	return &storagev1.ActiveStep{Ordinal: ordinal}
}
