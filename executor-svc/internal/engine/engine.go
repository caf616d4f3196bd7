package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/memory"
	"pawl.dev/executor-svc/internal/runner"
)

// Config bounds an engine. A zero value means the default.
type Config struct {
	// MaxRunning is how many tasks run at once (default 30). Other tasks wait in the journal.
	MaxRunning int
	// DrainTimeout is how long running tool calls may take to end when the engine stops (default 8 s).
	DrainTimeout time.Duration
	// Lease is how long a claim lasts unless it is renewed (default 30 s).
	Lease time.Duration
	// Retention is how long ended tasks, and archived topics without new messages, are kept; 0: for ever.
	Retention time.Duration
}

const (
	// retryDelay is the pause before a failed claim or read of an inbox is repeated, and before a failed owner gives up its claim.
	retryDelay = 200 * time.Millisecond
	// exitTimeout is how long owners may take to release their tasks after their actions were cancelled.
	exitTimeout = time.Second
)

// Journal is the part of a journal that an engine uses.
type Journal interface {
	journal.Tasks
	memory.Journal
	SweepTopics(ctx context.Context, activeBefore time.Time, max int) (int, error)
}

// Deps are the services and flows that an engine uses.
type Deps struct {
	Journal Journal
	Runner  *runner.Runner
	// Flows by name.
	Flows map[string]flow.Flow
	// Watching bounds the bytes of events that watchers hold; nil: 64 MiB.
	Watching *serve.Budget
	Log      *slog.Logger
}

// Engine runs tasks.
type Engine struct {
	cfg  Config
	deps Deps
	hub  hub
	// watching bounds the bytes of events that watchers hold, and reading how many records are read at once.
	watching *serve.Budget
	reading  chan struct{}
	// due wakes the claim loop.
	due chan struct{}
	// started is when the engine was made. An earlier process wrote any older checkpoint.
	started time.Time
	// draining is closed when the engine stops: nothing new is started.
	draining chan struct{}
	// ctx is the parent of all actions' contexts; cancel cancels it when actions have to end.
	ctx     context.Context
	cancel  context.CancelFunc
	storage storageState
	wg      sync.WaitGroup // counts owners

	mu      sync.Mutex // guards the fields below
	owners  map[string]*owner
	results map[string]chan error // by command id
	stopped bool
}

// New returns an engine that does nothing until Run.
func New(cfg Config, deps Deps) *Engine {
	cfg.MaxRunning = cmp.Or(cfg.MaxRunning, 30)
	cfg.DrainTimeout = cmp.Or(cfg.DrainTimeout, 8*time.Second)
	cfg.Lease = cmp.Or(cfg.Lease, 30*time.Second)
	if deps.Watching == nil {
		deps.Watching = serve.NewBudget("watch", 64<<20)
	}
	e := &Engine{
		cfg: cfg, deps: deps, due: make(chan struct{}, 1), draining: make(chan struct{}), started: time.Now(),
		owners: map[string]*owner{}, results: map[string]chan error{},
		watching: deps.Watching, reading: make(chan struct{}, maxReading),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Run claims due tasks and runs them until ctx is done. Then it starts nothing new, records the outcomes of running calls, and returns.
func (e *Engine) Run(ctx context.Context) error {
	defer e.cancel()
	defer e.deps.Runner.Close()
	var loops sync.WaitGroup
	loops.Go(func() { e.claimLoop(ctx) })
	loops.Go(func() { e.renewLoop(ctx) })
	loops.Go(func() { e.sweepLoop(ctx) })
	<-ctx.Done()
	err := e.drain()
	loops.Wait()
	return err
}

// drain starts nothing new, waits for running calls, and cancels those that do not end in time. It returns an error if tasks could not be
// released.
func (e *Engine) drain() error {
	e.mu.Lock()
	e.stopped = true
	close(e.draining)
	for _, o := range e.owners {
		o.wake()
	}
	e.mu.Unlock()
	idle := make(chan struct{})
	go func() { e.wg.Wait(); close(idle) }()
	timeout := time.NewTimer(e.cfg.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-idle:
	case <-timeout.C:
		e.deps.Log.Warn("tool calls did not end in time; their outcomes are asked for at the next start", "timeout", e.cfg.DrainTimeout)
		e.cancel()
	}
	exit := time.NewTimer(exitTimeout)
	defer exit.Stop()
	select {
	case <-idle:
		return nil
	case <-exit.C:
		return errors.New("the journal did not answer in time, so some tasks could not be released; they are recovered at the next start")
	}
}

// Running returns how many tasks have an owner now.
func (e *Engine) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.owners)
}

// StorageError returns why changes cannot be stored now, or nil.
func (e *Engine) StorageError() error {
	if err := e.storage.error(); err != nil {
		return err
	}
	return e.deps.Journal.Healthy()
}

func (e *Engine) isStopped() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopped
}
