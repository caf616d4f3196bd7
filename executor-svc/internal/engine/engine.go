package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/span"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/runner"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Config bounds an engine. Zero values mean the defaults.
type Config struct {
	// MaxRunning is how many tasks run at once (A28); 30. More are queued: they are in the journal, and due.
	MaxRunning int
	// DrainTimeout is how long running tool calls may take to come back when the engine stops; 8 s.
	DrainTimeout time.Duration
	// Lease is how long a claim lasts that is not renewed; 30 s.
	Lease time.Duration
	// Retention is how long tasks are kept after they ended; 0: for ever.
	Retention time.Duration
}

// sendPatience is how long a sender waits for a task to take up its command.
const sendPatience = 30 * time.Second

// againAfter is how long a task rests that could not be owned to its end.
const againAfter = 200 * time.Millisecond

// lastWait is how long owners may take to leave after everything that runs was ended.
const lastWait = time.Second

// Deps is what an engine stands on.
type Deps struct {
	Journal journal.Tasks
	Runner  *runner.Runner
	// Flows by name.
	Flows map[string]flow.Flow
	Log   *slog.Logger
}

// Engine runs tasks.
type Engine struct {
	cfg  Config
	deps Deps
	hub  *hub
	// due is sent to when there may be something to claim.
	due chan struct{}
	// claiming says that tasks may be taken up.
	claiming atomic.Bool
	// began is when the engine started: a running task that was written before it was interrupted.
	began time.Time
	// draining is closed when the engine stops: nothing new is begun.
	draining chan struct{}
	// hard ends everything that is still running.
	hard     context.Context
	stopHard context.CancelFunc

	mu      sync.Mutex // guards what follows
	owners  map[string]*owner
	results map[string]chan error // by command id
	fresh   map[string]journal.NewTask
	stopped bool
	wg      sync.WaitGroup
}

// New returns an engine that does nothing until Run.
func New(cfg Config, deps Deps) *Engine {
	if cfg.MaxRunning == 0 {
		cfg.MaxRunning = 30
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = 8 * time.Second
	}
	if cfg.Lease == 0 {
		cfg.Lease = 30 * time.Second
	}
	e := &Engine{
		cfg: cfg, deps: deps, hub: newHub(), due: make(chan struct{}, 1), draining: make(chan struct{}), began: time.Now(),
		owners: map[string]*owner{}, results: map[string]chan error{}, fresh: map[string]journal.NewTask{},
	}
	e.hard, e.stopHard = context.WithCancel(context.Background())
	return e
}

// Run owns the tasks that are due until ctx is done. Then running tool calls come back and are recorded, nothing new is
// begun, and Run returns.
func (e *Engine) Run(ctx context.Context) error {
	defer e.stopHard()
	defer e.deps.Runner.Close()
	var beside sync.WaitGroup
	stop, cancel := context.WithCancel(ctx)
	e.claiming.Store(true)
	beside.Go(func() { e.claim(stop) })
	beside.Go(func() { e.renew(stop) })
	beside.Go(func() { e.sweep(stop) })
	<-ctx.Done()
	cancel()
	err := e.drain()
	beside.Wait()
	return err
}

// drain begins nothing new, lets running calls come back, and ends what does not.
func (e *Engine) drain() error {
	e.mu.Lock()
	e.stopped = true
	close(e.draining)
	for _, o := range e.owners {
		o.poke()
	}
	e.mu.Unlock()
	idle := make(chan struct{})
	go func() { e.wg.Wait(); close(idle) }()
	timeout := time.NewTimer(e.cfg.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-idle:
	case <-timeout.C:
		e.deps.Log.Warn("tool calls did not come back in time; what became of them is asked at the next start", "timeout", e.cfg.DrainTimeout)
		e.stopHard()
	}
	last := time.NewTimer(lastWait)
	defer last.Stop()
	select {
	case <-idle:
		return nil
	case <-last.C:
		return errors.New("some tasks could not be left in an orderly way: the journal does not answer; they are taken up at the next start")
	}
}

// Draining is closed when the engine stops.
func (e *Engine) Draining() <-chan struct{} { return e.draining }

// Create stores a new task and starts it. A repeated request gives the first one's id.
func (e *Engine) Create(ctx context.Context, n journal.NewTask) (id string, err error) {
	if e.isStopped() {
		return "", stopping()
	}
	e.keepFresh(n) // before it can be claimed
	id, created, err := e.deps.Journal.Create(ctx, n)
	if err != nil || !created {
		e.takeFresh(n.ID)
		return id, err
	}
	e.claimNow()
	return id, nil
}

// freshLimit bounds how many new tasks are kept for their first owner; others are read from the journal.
const freshLimit = 256

// keepFresh spares the first owner of a task from reading what was just written.
func (e *Engine) keepFresh(n journal.NewTask) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.fresh) < freshLimit {
		e.fresh[n.ID] = n
	}
}

func (e *Engine) takeFresh(id string) (journal.NewTask, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := e.fresh[id]
	delete(e.fresh, id)
	return n, ok
}

// errQueued answers a command that has to wait for a running slot: it is stored, and will be done.
var errQueued = errors.New("the command waits for a running slot")

// Send stores a command for a task and returns what its flow said to it; nil too where it is stored and waits for a running
// slot. When ctx ends before that, the command is still done.
func (e *Engine) Send(ctx context.Context, taskID string, c *storagev1.Command) error {
	if e.isStopped() {
		return stopping()
	}
	c.Id = uuid.NewString()
	c.Time = time.Now().UnixNano()
	result := make(chan error, 1)
	e.mu.Lock()
	e.results[c.Id] = result
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.results, c.Id)
		e.mu.Unlock()
	}()
	if _, err := e.deps.Journal.Send(ctx, taskID, c); err != nil {
		return err
	}
	e.Wake(taskID)
	patience := time.NewTimer(sendPatience)
	defer patience.Stop()
	select {
	case err := <-result:
		if errors.Is(err, errQueued) {
			return nil
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.draining:
		return stopping()
	case <-patience.C:
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR,
			"the command is stored, but the task did not take it up within %s; it will as soon as it can", span.Text(sendPatience))
	}
}

// Wake makes sure that somebody looks into a task's inbox: its owner, or else whoever claims it.
func (e *Engine) Wake(taskID string) {
	e.mu.Lock()
	o := e.owners[taskID]
	e.mu.Unlock()
	if o != nil {
		o.poke()
	}
	// Also where there is an owner: it may be leaving.
	e.nudge()
}

func (e *Engine) answer(commandID string, err error) {
	e.mu.Lock()
	result := e.results[commandID]
	e.mu.Unlock()
	if result == nil {
		return
	}
	select {
	case result <- err:
	default: // it was answered that it is queued
	}
}

// Running returns how many tasks have an owner now.
func (e *Engine) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.owners)
}

func (e *Engine) isStopped() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopped
}

func stopping() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
		"the executor is stopping; try again when it is back")
}
