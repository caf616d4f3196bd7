package executor_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/executor"
	"pawl.dev/executor-svc/executor/executortest"
	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	"pawl.dev/executor-svc/internal/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an executor over fakes, reached over gRPC with the real interceptors.
type rig struct {
	t       *testing.T
	dir     string
	planner *fake.Planner
	pool    *fake.Pool
	cfg     executor.Config
	// started is when the executor was started last.
	started time.Time
	// keepPool lets the pool survive restarts of the executor.
	keepPool bool
	options  serve.Options
	observe  executortest.Observer
	// connect, if not nil, replaces the connection to the pool.
	connect func(grpc.ClientConnInterface) grpc.ClientConnInterface
	// watched, if not nil, receives the error with which each WatchTask ends in the executor.
	watched chan error

	tasks  executorv1.ExecutorServiceClient
	agents executorv1.AgentServiceClient
	dial   func(token string) *grpc.ClientConn
	stop   func()
}

// services accepts every caller as a service, which acts on behalf of any user.
type services struct{}

func (services) Authenticate(context.Context, string) (identity.Principal, error) {
	return identity.Principal{Sub: "executor", Roles: []identity.Role{identity.RoleService}}, nil
}

func newRig(t *testing.T, p *fake.Planner) *rig {
	r := &rig{t: t, dir: t.TempDir(), planner: p, pool: fake.NewPool()}
	r.cfg.DrainTimeout = time.Minute
	r.start()
	return r
}

// start starts the executor on the rig's folder; a second one after stop is a restart.
func (r *rig) start() {
	r.t.Helper()
	log := slog.New(slog.NewTextHandler(r.t.Output(), nil))
	fakes := serve.Options{Log: log}
	if r.options.Auth != nil {
		fakes.Auth = services{}
	}
	deps := executor.Deps{
		Log:     log,
		Planner: grpctest.Serve(r.t, func(s grpc.ServiceRegistrar) { plannerv1.RegisterPlannerServiceServer(s, r.planner) }, fakes),
		Pool:    grpctest.Serve(r.t, func(s grpc.ServiceRegistrar) { mcppoolv1.RegisterMcpPoolServiceServer(s, r.pool) }, fakes),
	}
	if r.connect != nil {
		deps.Pool = r.connect(deps.Pool)
	}
	if r.observe != nil {
		deps = executortest.Observe(deps, r.observe)
	}
	if !r.keepPool {
		r.pool.Restart() // it dies with the executor, as in one process
	}
	r.cfg.DataDir = r.dir
	r.started = time.Now()
	svc, err := executor.New(r.t.Context(), r.cfg, deps)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- svc.Run(ctx) }()
	options := r.options
	options.Log = log
	r.dial = grpctest.Server(r.t, func(s grpc.ServiceRegistrar) { svc.Register(watchedRegistrar{s, r.watched}) }, options)
	conn := r.dial("")
	r.tasks, r.agents = executorv1.NewExecutorServiceClient(conn), executorv1.NewAgentServiceClient(conn)
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ran; err != nil {
			r.t.Errorf("Run: %v", err)
		}
		if err := svc.Close(); err != nil {
			r.t.Errorf("Close: %v", err)
		}
	}
	r.t.Cleanup(r.stop)
}

func (r *rig) create(req *executorv1.CreateTaskRequest) *executorv1.Task {
	r.t.Helper()
	task, err := r.tasks.CreateTask(r.t.Context(), req)
	if err != nil {
		r.t.Fatalf("CreateTask: %v", err)
	}
	return task
}

// run creates a task and reads its events until it stops or ends.
func (r *rig) run(req *executorv1.CreateTaskRequest) []*executorv1.ExecutorEvent {
	r.t.Helper()
	stream, err := r.tasks.RunTask(r.t.Context(), &executorv1.RunTaskRequest{Task: req})
	if err != nil {
		r.t.Fatalf("RunTask: %v", err)
	}
	events, err := readAll(stream)
	if err != nil {
		r.t.Fatalf("RunTask: %v", err)
	}
	return events
}

func auto(goal string) *executorv1.CreateTaskRequest {
	yes := true
	return &executorv1.CreateTaskRequest{Goal: goal, AutoExecute: &yes}
}

func manual(goal string) *executorv1.CreateTaskRequest {
	return &executorv1.CreateTaskRequest{Goal: goal}
}

// until watches a task from its first event until one of that type, and returns it.
func (r *rig) until(id string, want executorv1.EventType) *executorv1.ExecutorEvent {
	return r.untilAfter(id, 0, want)
}

func (r *rig) untilAfter(id string, after uint64, want executorv1.EventType) *executorv1.ExecutorEvent {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.tasks.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: id, AfterSeq: after})
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			r.t.Fatalf("waiting for %s: %v; so far: %v", want, err, types(r.events(id)))
		}
		if e.GetType() == want {
			return e
		}
	}
}

// untilWait waits until the task has an open wait of that kind, and returns it.
func (r *rig) untilWait(id string, kind executorv1.WaitKind) *executorv1.Wait {
	r.t.Helper()
	for seq := uint64(0); ; {
		for _, w := range r.task(id).GetWaits() {
			if w.GetKind() == kind {
				return w
			}
		}
		seq = r.untilAfter(id, seq, flowStop).GetSeq()
	}
}

// events returns all events so far, and checks the invariants of an event log.
func (r *rig) events(id string) []*executorv1.ExecutorEvent {
	r.t.Helper()
	stream, err := r.tasks.WatchTask(r.t.Context(), &executorv1.WatchTaskRequest{Id: id, NoFollow: true})
	if err != nil {
		r.t.Fatal(err)
	}
	events, err := readAll(stream)
	if err != nil {
		r.t.Fatal(err)
	}
	checkLog(r.t, events)
	return events
}

func (r *rig) task(id string) *executorv1.Task {
	r.t.Helper()
	task, err := r.tasks.GetTask(r.t.Context(), &executorv1.GetTaskRequest{Id: id})
	if err != nil {
		r.t.Fatal(err)
	}
	return task
}

func (r *rig) steps(id string) []*executorv1.Step {
	r.t.Helper()
	res, err := r.tasks.ListSteps(r.t.Context(), &executorv1.ListStepsRequest{Id: id})
	if err != nil {
		r.t.Fatal(err)
	}
	if task := r.task(id); state.Ended(task.GetStatus()) || task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING {
		r.checkPages(id, res.GetSteps())
	}
	return res.GetSteps()
}

// checkPages reads the steps in pages, which must hold the same.
func (r *rig) checkPages(id string, want []*executorv1.Step) {
	r.t.Helper()
	for _, size := range []int32{1, 3} {
		var got []*executorv1.Step
		for req := (&executorv1.ListStepsRequest{Id: id, PageSize: size}); ; {
			res, err := r.tasks.ListSteps(r.t.Context(), req)
			if err != nil {
				r.t.Fatal(err)
			}
			if got = append(got, res.GetSteps()...); len(res.GetSteps()) > int(size) {
				r.t.Errorf("a page of %d has %d steps", size, len(res.GetSteps()))
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if !slices.EqualFunc(got, want, func(a, b *executorv1.Step) bool { return proto.Equal(a, b) }) {
			r.t.Errorf("in pages of %d the steps are %v, want %v", size, got, want)
		}
	}
}

func (r *rig) approve(id, wait, input string) (*executorv1.Task, error) {
	return r.tasks.ResumeTask(r.t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, WaitId: wait, Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{InputJson: input}},
	})
}

func (r *rig) reject(id, wait string) (*executorv1.Task, error) {
	return r.tasks.ResumeTask(r.t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, WaitId: wait, Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: "no"}},
	})
}

func (r *rig) params(id, wait, content string) (*executorv1.Task, error) {
	return r.tasks.ResumeTask(r.t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, WaitId: wait, Answer: &executorv1.ResumeTaskRequest_Params{Params: &executorv1.Params{ContentJson: content}},
	})
}

// readAll returns the events of a stream up to its end.
func readAll(stream interface {
	Recv() (*executorv1.ExecutorEvent, error)
}) ([]*executorv1.ExecutorEvent, error) {
	var events []*executorv1.ExecutorEvent
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func types(events []*executorv1.ExecutorEvent) []string {
	var all []string
	for _, e := range events {
		all = append(all, strings.TrimPrefix(e.GetType().String(), "EVENT_TYPE_"))
	}
	return all
}

// wantTypes compares the types of events, without STATUS_CHANGED and TOOLS_LOADED at the start.
func wantTypes(t *testing.T, events []*executorv1.ExecutorEvent, want ...string) {
	t.Helper()
	got := types(events)
	for len(got) > 0 && (got[0] == "STATUS_CHANGED" || got[0] == "TOOLS_LOADED") {
		got = got[1:]
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// checkLog checks the invariants of an event log.
func checkLog(t *testing.T, events []*executorv1.ExecutorEvent) {
	t.Helper()
	for _, problem := range executortest.Violations(events) {
		t.Error(problem)
	}
}

// callUntilStopped stops the executor during a task's first call, which it approves if necessary. The call continues in the pool
// until release is called.
func (r *rig) callUntilStopped(req *executorv1.CreateTaskRequest) (id string, release func()) {
	r.t.Helper()
	r.stop()
	r.cfg.DrainTimeout = time.Millisecond
	called, finish := make(chan struct{}), make(chan struct{})
	r.pool.Detached = true
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		close(called)
		<-finish
		return send(fake.TextResult("done meanwhile", false))
	}
	r.start()
	id = r.create(req).GetId()
	for r.task(id).GetStepCount() == 0 {
		r.until(id, executorv1.EventType_EVENT_TYPE_STEP_INIT)
	}
	if r.until(id, executorv1.EventType_EVENT_TYPE_STEP_INIT); r.task(id).GetStatus() == waiting {
		if _, err := r.approve(id, r.untilWait(id, executorv1.WaitKind_WAIT_KIND_APPROVAL).GetId(), ""); err != nil {
			r.t.Fatal(err)
		}
	}
	<-called
	r.stop()
	return id, func() { close(finish) }
}

// crash waits until the executor has stored something of the task since its last start, and restarts it on a copy of the journal
// of that moment, as if its process had been killed.
func (r *rig) crash(id string) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for r.task(id).GetUpdateTime().AsTime().Before(r.started) {
		<-tick.C
	}
	path, killed := filepath.Join(r.dir, "journal.db"), filepath.Join(r.t.TempDir(), "journal.db")
	journaltest.Copy(r.t, journaltest.Files(path), journaltest.Files(killed))
	r.stop()
	journaltest.Copy(r.t, journaltest.Files(killed), journaltest.Files(path))
	r.start()
}
