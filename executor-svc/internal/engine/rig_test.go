package engine_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/engine"
	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	"pawl.dev/executor-svc/internal/flow/coding"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/runner"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	running   = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	waiting   = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	success   = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
	failed    = executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR
	cancelled = executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED

	always = executorv1.Confirm_CONFIRM_ALWAYS
	never  = executorv1.Confirm_CONFIRM_NEVER
	byRisk = executorv1.Confirm_CONFIRM_BY_RISK

	taskEnded   = commonv1.ErrorReason_ERROR_REASON_TASK_ENDED
	waitNotOpen = commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN
)

// patience is how long a test waits for what must come. It is less than Send waits for a command to be applied.
const patience = 20 * time.Second

// barrier holds the first goroutine that passes until it is opened.
type barrier struct {
	t       testing.TB
	taken   atomic.Bool
	reached chan struct{}
	opened  chan struct{}
	open    func()
}

func newBarrier(t testing.TB) *barrier {
	b := &barrier{t: t, reached: make(chan struct{}), opened: make(chan struct{})}
	b.open = sync.OnceFunc(func() { close(b.opened) })
	t.Cleanup(b.open)
	return b
}

func (b *barrier) pass() {
	if b.taken.CompareAndSwap(false, true) {
		close(b.reached)
		<-b.opened
	}
}

// await returns once a goroutine stands at the barrier.
func (b *barrier) await() {
	b.t.Helper()
	receive(b.t, b.reached)
}

func receive[T any](t testing.TB, from <-chan T) (got T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case got = <-from:
	case <-timer.C:
		t.Fatal("what was waited for did not come")
	}
	return got
}

// hooked is a journal whose calls a test can see, hold and fail. Hooks are set before the engine starts.
type hooked struct {
	*bolt.Store
	onCommit func(t journal.Transition, do func() error) error
	// onRead is called before an owner's or a watcher's read, with the name of the method.
	onRead func(method, id string) error
	// onRenew, if not nil, replaces Renew: it returns the ids of the tasks whose claims are lost.
	onRenew func([]journal.Claim) []string
	// onSent holds functions by command, called once the command is durable and before its task is told.
	onSent sync.Map
}

func (h *hooked) Commit(ctx context.Context, t journal.Transition) error {
	do := func() error { return h.Store.Commit(ctx, t) }
	if h.onCommit != nil {
		return h.onCommit(t, do)
	}
	return do()
}

func (h *hooked) Renew(ctx context.Context, claims []journal.Claim, now time.Time, lease time.Duration) ([]string, error) {
	if h.onRenew != nil {
		return h.onRenew(claims), nil
	}
	return h.Store.Renew(ctx, claims, now, lease)
}

func (h *hooked) Send(ctx context.Context, id string, c *storagev1.Command) (uint64, error) {
	no, err := h.Store.Send(ctx, id, c)
	if fn, ok := h.onSent.LoadAndDelete(c); ok {
		fn.(func())()
	}
	return no, err
}

func (h *hooked) read(method, id string) error {
	if h.onRead == nil {
		return nil
	}
	return h.onRead(method, id)
}

func (h *hooked) Load(ctx context.Context, id string) (*journal.Task, error) {
	if err := h.read("Load", id); err != nil {
		return nil, err
	}
	return h.Store.Load(ctx, id)
}

func (h *hooked) Records(ctx context.Context, id string, after uint64, maxBytes int) ([]journal.Record, error) {
	if err := h.read("Records", id); err != nil {
		return nil, err
	}
	return h.Store.Records(ctx, id, after, maxBytes)
}

func (h *hooked) Inbox(ctx context.Context, id string) ([]journal.Command, error) {
	if err := h.read("Inbox", id); err != nil {
		return nil, err
	}
	return h.Store.Inbox(ctx, id)
}

// holdCommit lets the commit of a fact like that wait at the barrier.
func holdCommit(b *barrier, like func(*storagev1.Fact) bool) func(journal.Transition, func() error) error {
	return func(t journal.Transition, do func() error) error {
		if slices.ContainsFunc(t.Record.GetFacts(), like) {
			b.pass()
		}
		return do()
	}
}

// rig is an engine over a real journal and fakes, reached over gRPC. It is configured between newRig and start.
type rig struct {
	t       testing.TB
	planner *fake.Planner
	pool    *fake.Pool
	path    string
	cfg     engine.Config
	runner  runner.Config
	log     *slog.Logger
	// stuck says that the engine cannot stop in an orderly way.
	stuck bool
	// accepts says that finish accepts what tools ask for; else it declines.
	accepts bool
	// keepPool lets the pool survive restarts.
	keepPool bool

	plannerClient plannerv1.PlannerServiceClient
	poolClient    mcppoolv1.McpPoolServiceClient

	// holds has barriers by task: its calls stand at it before they do anything.
	holds sync.Map

	j    *hooked
	e    *engine.Engine
	stop func() error
}

// newRig serves the fakes; what a test makes later is cleaned up before them, so that no call of theirs hangs.
func newRig(t testing.TB, p *fake.Planner) *rig {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	return newRigOver(t, p, log, func(register func(grpc.ServiceRegistrar)) grpc.ClientConnInterface {
		return grpctest.Serve(t, register, serve.Options{Log: log})
	})
}

func newRigOver(t testing.TB, p *fake.Planner, log *slog.Logger, connect func(register func(grpc.ServiceRegistrar)) grpc.ClientConnInterface) *rig {
	r := &rig{
		t: t, planner: p, pool: fake.NewPool(), j: &hooked{}, path: filepath.Join(t.TempDir(), "journal.db"), log: log,
	}
	r.plannerClient = plannerv1.NewPlannerServiceClient(connect(func(s grpc.ServiceRegistrar) { plannerv1.RegisterPlannerServiceServer(s, p) }))
	r.poolClient = mcppoolv1.NewMcpPoolServiceClient(connect(func(s grpc.ServiceRegistrar) { mcppoolv1.RegisterMcpPoolServiceServer(s, r.pool) }))
	r.cfg.DrainTimeout = 100 * time.Millisecond
	r.pool.Before = func(req *mcppoolv1.CallToolRequest) {
		if b, ok := r.holds.Load(req.GetSessionId()); ok {
			b.(*barrier).pass()
		}
	}
	return r
}

// start starts the engine on the rig's journal; a second one after stop is a restart.
func (r *rig) start() *rig {
	r.t.Helper()
	s, err := bolt.Open(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.j.Store = s
	if !r.keepPool {
		r.pool.Restart() // it dies with the executor, as in one process
	}
	r.e = engine.New(r.cfg, engine.Deps{
		Journal: r.j, Log: r.log, Flows: map[string]flow.Flow{"agent": agent.New(), "coding": coding.Flow{}},
		Runner: runner.New(r.runner, r.plannerClient, r.poolClient, r.log),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func(e *engine.Engine) { ran <- e.Run(ctx) }(r.e)
	stop := sync.OnceValue(func() error {
		cancel()
		err := <-ran
		if err := s.Close(); err != nil {
			r.t.Errorf("Close: %v", err)
		}
		return err
	})
	r.stop = stop
	r.t.Cleanup(func() {
		if err := stop(); err != nil && !r.stuck {
			r.t.Errorf("Run: %v", err)
		}
	})
	return r
}

func newTask(confirm executorv1.Confirm) journal.NewTask {
	now := time.Now().UnixNano()
	initial, start := executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT, agent.New().Start()
	start.UpdateTime = now
	return journal.NewTask{
		ID: uuid.Must(uuid.NewV7()).String(),
		Head: &storagev1.TaskHead{
			UserSub: "local", Goal: "a goal", Flow: "agent", Confirm: confirm, CreateTime: now,
			Limits: &storagev1.Limits{MaxSteps: 25, MaxFailedSteps: 3, MaxAttempts: 5},
		},
		Checkpoint: start,
		Records: []journal.Record{{FirstSeq: 1, Record: &storagev1.Record{Time: now, Facts: []*storagev1.Fact{{
			Status: initial, Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{}},
		}}}}},
	}
}

func (r *rig) create(confirm executorv1.Confirm) string {
	r.t.Helper()
	return r.createAs(newTask(confirm))
}

func (r *rig) createAs(n journal.NewTask) string {
	r.t.Helper()
	id, err := r.e.Create(r.t.Context(), n)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// takeSlot creates a task whose call stands at the barrier that is returned, and with it holds a running slot.
func (r *rig) takeSlot() (id string, call *barrier) {
	r.t.Helper()
	n, call := newTask(never), newBarrier(r.t)
	r.holds.Store(n.ID, call)
	r.createAs(n)
	call.await()
	return n.ID, call
}

func (r *rig) task(id string) *journal.Task {
	r.t.Helper()
	t, err := r.j.Load(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// inbox returns the commands that no transition has applied.
func (r *rig) inbox(id string) []journal.Command {
	r.t.Helper()
	in, err := r.j.Inbox(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return in
}

// await watches a task until it has one of these statuses. It gives up if no event comes for a while; a long task on a busy machine takes longer.
func (r *rig) await(id string, want ...executorv1.ExecutorStatus) executorv1.ExecutorStatus {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	stands := func(s executorv1.ExecutorStatus) bool { return slices.Contains(want, s) }
	for {
		err := r.e.Watch(ctx, id, 0, stands, func(*executorv1.ExecutorEvent) error {
			timer.Reset(patience)
			return nil
		})
		got := r.task(id).Checkpoint.GetStatus()
		if err != nil {
			r.t.Fatalf("task %s is %s, want %v: %v; %v", id, got, want, err, r.types(id))
		}
		if stands(got) {
			return got
		} // a command that was in the inbox has moved the task on
	}
}

// events returns all events so far, and checks the invariants of an event log.
func (r *rig) events(id string) []*executorv1.ExecutorEvent {
	r.t.Helper()
	var all []*executorv1.ExecutorEvent
	atOnce := func(executorv1.ExecutorStatus) bool { return true }
	err := r.e.Watch(context.Background(), id, 0, atOnce, func(e *executorv1.ExecutorEvent) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		r.t.Errorf("reading the events of %s: %v", id, err)
	}
	checkLog(r.t, all)
	return all
}

// types returns the kinds of events from FLOW_START on.
func (r *rig) types(id string) []string {
	r.t.Helper()
	var all []string
	for _, e := range r.events(id) {
		all = append(all, strings.TrimPrefix(e.GetType().String(), "EVENT_TYPE_"))
	}
	return all[max(0, slices.Index(all, "FLOW_START")):]
}

// send sends a command and returns its answer.
func (r *rig) send(id string, c *storagev1.Command) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.e.Send(ctx, id, c)
}

// queue sends a command and returns as soon as it is durable and its task was told; the answer comes later.
func (r *rig) queue(id string, c *storagev1.Command) (answer <-chan error) {
	r.t.Helper()
	stored, answered := make(chan struct{}), make(chan error, 1)
	r.j.onSent.Store(c, func() { close(stored) })
	go func() { answered <- r.send(id, c) }()
	receive(r.t, stored)
	r.e.Wake(id)
	return answered
}

func cancelCommand() *storagev1.Command {
	return &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{}}}
}

func approveCommand(wait string) *storagev1.Command {
	return &storagev1.Command{Kind: &storagev1.Command_Approve{Approve: &storagev1.Approve{WaitId: wait}}}
}

func rejectCommand(wait string) *storagev1.Command {
	return &storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: wait}}}
}

// wantAnswer checks that a command was answered with one of the reasons; 0 stands for no error.
func wantAnswer(t testing.TB, what string, err error, want ...commonv1.ErrorReason) {
	t.Helper()
	got := commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED
	if err != nil {
		got = errs.Reason(err)
	}
	if !slices.Contains(want, got) || got == 0 && err != nil {
		t.Errorf("%s was answered %v, want %v", what, err, want)
	}
}
