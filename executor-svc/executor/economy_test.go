package executor_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/executor"
	"pawl.dev/executor-svc/internal/fake"
)

// counted counts the RPCs over a connection, by method.
type counted struct {
	grpc.ClientConnInterface
	mu   *sync.Mutex
	rpcs map[string]int // guarded by mu
}

func (c counted) count(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rpcs[path.Base(method)]++
}

func (c counted) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.count(method)
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func (c counted) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c.count(method)
	return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// since returns the counts since it was last called.
func (c counted) since() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.rpcs)
	clear(c.rpcs)
	return all
}

// countedExecutor starts an executor with planner and pool in one process. Call it in a synctest bubble, so that a slow machine
// causes no timeout.
func countedExecutor(t *testing.T, pool *fake.Pool) (client executorv1.ExecutorServiceClient, all counted, stop func()) {
	all = counted{mu: new(sync.Mutex), rpcs: map[string]int{}}
	log := slog.New(slog.DiscardHandler)
	connect := func(register func(grpc.ServiceRegistrar)) *inproc.Conn {
		unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local(), Log: log})
		if err != nil {
			t.Fatal(err)
		}
		conn := inproc.New(unary, stream)
		register(conn)
		return conn
	}
	see := func(conn *inproc.Conn) grpc.ClientConnInterface { return counted{conn, all.mu, all.rpcs} }
	p := fake.Script("read", "read", "read", "read", "read", "read", "read", "read", "read", "read")
	p.Ahead = true
	svc, err := executor.New(t.Context(), executor.Config{DataDir: t.TempDir()}, executor.Deps{
		Log:     log,
		Planner: see(connect(func(r grpc.ServiceRegistrar) { plannerv1.RegisterPlannerServiceServer(r, p) })),
		Pool:    see(connect(func(r grpc.ServiceRegistrar) { mcppoolv1.RegisterMcpPoolServiceServer(r, pool) })),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- svc.Run(ctx) }()
	return executorv1.NewExecutorServiceClient(connect(svc.Register)), all, func() {
		cancel()
		if err := errors.Join(<-ran, svc.Close()); err != nil {
			t.Error(err)
		}
	}
}

func tenSteps() *executorv1.CreateTaskRequest {
	req := auto("")
	req.Playbook, req.McpIds = "ten steps", []string{"t"}
	return req
}

// A playbook of ten steps that was run a moment ago costs at most three RPCs between the services: its tools, its plan and its answer.
// Its calls use a stream that is open already, and its session is released with the calls of the next task.
func TestFewRequestsPerTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks = 20
		pool := fake.NewPool()
		client, all, stop := countedExecutor(t, pool)
		if err := runTask(t.Context(), client, tenSteps()); err != nil {
			t.Error(err)
		}
		if got := all.since(); got["CheckPlaybook"] != 1 || got["GetMcpServer"] != 1 || got["CallTools"] != 1 {
			t.Errorf("the first task: %v", got)
		}
		for range tasks {
			if err := runTask(t.Context(), client, tenSteps()); err != nil {
				t.Error(err)
			}
		}
		got, n := all.since(), 0
		for _, rpcs := range got {
			n += rpcs
		}
		if n > 3*tasks {
			t.Errorf("%d tasks of ten steps sent %d RPCs: %v", tasks, n, got)
		}
		stop()
		if calls := pool.Called(); len(calls) != 10*(tasks+1) {
			t.Errorf("%d calls were made", len(calls))
		}
		if released := pool.Seen().Released; len(released) != tasks+1 {
			t.Errorf("A23: %d sessions were released, want each of %d once", len(released), tasks+1)
		}
		if acked := pool.Seen().Acked; len(acked) != 10*(tasks+1) {
			t.Errorf("%d calls were acknowledged, want all %d", len(acked), 10*(tasks+1))
		}
	})
}

// A2: a check that fails is repeated at each creation; one that succeeds is remembered for a short time only.
func TestChecksAreNotRememberedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, all, stop := countedExecutor(t, fake.NewPool())
		defer stop()
		create := func(playbook, server string) error {
			req := tenSteps()
			req.Playbook, req.McpIds = playbook, []string{server}
			_, err := client.CreateTask(t.Context(), req)
			return err
		}
		for range 2 {
			if err := create("right", "none"); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND {
				t.Errorf("an unknown server: %v", err)
			}
			if err := create("broken", "t"); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK {
				t.Errorf("a broken playbook: %v", err)
			}
		}
		if got := all.since(); got["CheckPlaybook"] != 3 || got["GetMcpServer"] != 3 {
			t.Errorf("asked %v; want each time, but once for what was right", got)
		}
		for _, again := range []struct {
			after              time.Duration
			playbooks, servers int
		}{{time.Second, 0, 0}, {time.Second, 0, 1}, {time.Minute, 1, 1}} {
			<-time.After(again.after)
			if err := create("right", "t"); err != nil {
				t.Error(err)
			}
			if got := all.since(); got["CheckPlaybook"] != again.playbooks || got["GetMcpServer"] != again.servers {
				t.Errorf("%s later: asked %v", again.after, got)
			}
		}
	})
}
