package engine_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/runner"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	known       = commonv1.Outcome_OUTCOME_KNOWN
	notExecuted = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	unknown     = commonv1.Outcome_OUTCOME_UNKNOWN
)

// Over real connections that break in different ways, the outcome of a call is KNOWN, proven NOT_EXECUTED or UNKNOWN, never guessed.
// The tool writes: it is never called twice.
func TestReach(t *testing.T) {
	const short = 300 * time.Millisecond
	for name, c := range map[string]struct {
		pool     func(*reach)
		want     commonv1.Outcome
		calls    int32
		patience time.Duration
	}{
		"no listener":                      {func(n *reach) { n.closeListener() }, notExecuted, 0, short},
		"connections are cut at once":      {func(n *reach) { n.proxy(func(int) cut { return nil }) }, notExecuted, 0, short},
		"pool is there at the third try":   {func(n *reach) { n.proxy(func(i int) cut { return cutFirst(i, 2) }) }, known, 1, patience},
		"pool dies in the call":            {func(n *reach) { n.during = n.server.Stop; n.direct() }, unknown, 1, short},
		"connection is cut in the call":    {func(n *reach) { n.during = func() {}; n.proxy(func(int) cut { return n.cutInTheCall }) }, unknown, 1, short},
		"pool says that it is unavailable": {func(n *reach) { n.err = status.Error(codes.Unavailable, "x"); n.direct() }, unknown, 1, short},
		"pool answers":                     {func(n *reach) { n.direct() }, known, 1, patience},
	} {
		t.Run(name, func(t *testing.T) {
			n := newReach(t)
			c.pool(n)
			got := n.call(c.patience)
			if got.Outcome != c.want || n.calls.Load() != c.calls {
				t.Errorf("%s after %d calls, want %s after %d; %v", got.Outcome, n.calls.Load(), c.want, c.calls, got.Err)
			}
		})
	}
}

// After however many bytes a connection breaks, a call that the pool got does not end as NOT_EXECUTED.
func TestReachCutAnywhere(t *testing.T) {
	const short = 100 * time.Millisecond
	for bytes := int64(8); bytes <= 600; bytes += 16 {
		n := newReach(t)
		n.proxy(func(int) cut { return cutAfter(bytes) })
		got := n.call(short)
		if calls := n.calls.Load(); calls > 1 || calls == 1 && got.Outcome == notExecuted {
			t.Errorf("cut after %d bytes: %s after %d calls", bytes, got.Outcome, calls)
		}
		n.close()
	}
}

// cut forwards bytes from a client to the pool; when it returns, the connection breaks. A nil cut breaks it before any byte has gone
// in either direction.
type cut func(client, pool net.Conn)

func cutAfter(bytes int64) cut {
	return func(client, pool net.Conn) { _, _ = io.CopyN(pool, client, bytes) }
}

// cutFirst cuts the i-th connection at once if i is below first.
func cutFirst(i, first int) cut {
	if i < first {
		return nil
	}
	return func(client, pool net.Conn) { _, _ = io.Copy(pool, client) }
}

// reach is a pool behind a real network, and a runner in front of it.
type reach struct {
	*fake.Pool
	t      *testing.T
	server *grpc.Server
	lis    net.Listener
	addr   string
	// during is run while the tool runs, and then the call hangs; err is what the call returns at once.
	during func()
	err    error

	calls  atomic.Int32
	called chan struct{}
	done   sync.WaitGroup
	close  func()
}

func newReach(t *testing.T) *reach {
	t.Helper()
	n := &reach{Pool: fake.NewPool(), t: t, called: make(chan struct{})}
	unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local()})
	if err != nil {
		t.Fatal(err)
	}
	n.server = grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	mcppoolv1.RegisterMcpPoolServiceServer(n.server, n.Pool)
	n.CallFn = n.answer
	n.lis = n.listen()
	n.addr = n.lis.Addr().String()
	n.close = sync.OnceFunc(func() {
		n.server.Stop()
		_ = n.lis.Close()
		n.done.Wait()
	})
	t.Cleanup(n.close)
	return n
}

func (n *reach) listen() net.Listener {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	return lis
}

func (n *reach) answer(ctx context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
	if n.calls.Add(1) == 1 {
		close(n.called)
	}
	switch {
	case n.err != nil:
		return n.err
	case n.during != nil:
		go n.during()
		<-ctx.Done()
		return ctx.Err()
	}
	return send(fake.TextResult("ok", false))
}

func (n *reach) closeListener() { _ = n.lis.Close() }

func (n *reach) direct() { n.done.Go(func() { _ = n.server.Serve(n.lis) }) }

// proxy serves the pool behind a proxy that treats the i-th connection as how says.
func (n *reach) proxy(how func(i int) cut) {
	front := n.listen()
	n.addr = front.Addr().String()
	n.direct()
	closeAll := n.close
	n.close = sync.OnceFunc(func() { _ = front.Close(); closeAll() })
	n.t.Cleanup(n.close)
	n.done.Go(func() {
		for i := 0; ; i++ {
			client, err := front.Accept()
			if err != nil {
				return
			}
			n.done.Go(func() { n.forward(client, how(i)) })
		}
	})
}

func (n *reach) forward(client net.Conn, how cut) {
	defer client.Close()
	if how == nil {
		return
	}
	pool, err := net.Dial("tcp", n.lis.Addr().String())
	if err != nil {
		return
	}
	defer pool.Close()
	n.done.Go(func() { _, _ = io.Copy(client, pool) })
	how(client, pool)
}

// cutInTheCall cuts once the tool runs.
func (n *reach) cutInTheCall(client, pool net.Conn) {
	go func() { _, _ = io.Copy(pool, client) }()
	<-n.called
}

// call calls a tool that writes, as the engine does.
func (n *reach) call(poolPatience time.Duration) flow.Called {
	n.t.Helper()
	conn, err := serve.Dial(n.addr, "")
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	run := runner.New(runner.Config{PoolPatience: poolPatience}, nil, mcppoolv1.NewMcpPoolServiceClient(conn), slog.New(slog.DiscardHandler))
	task := &flow.Task{
		ID: "0190a000-0000-7000-8000-000000000000", Head: &storagev1.TaskHead{UserSub: "local"},
		State: &storagev1.Checkpoint{Lanes: []*storagev1.Lane{{Step: &storagev1.ActiveStep{
			Ordinal: 1, Attempt: 1, ToolId: "t/write", InputJson: `{"text":"x"}`, Effect: commonv1.Effect_EFFECT_WRITE,
		}}}},
	}
	var all []flow.Called
	run.Session(task.ID, 1, task.Head, runner.Memory{}).Prepare(n.t.Context(), task, &history.Log{}, flow.LaneAction{Action: flow.Call{Ordinal: 1, Attempt: 1}})(n.t.Context(), func(in flow.Input) {
		if c, ok := in.(flow.Called); ok {
			all = append(all, c)
		}
	})
	if len(all) != 1 {
		n.t.Fatalf("the call came back %d times", len(all))
	}
	return all[0]
}
