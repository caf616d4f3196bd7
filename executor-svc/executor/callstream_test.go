package executor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/fake"
)

// switchConn is a connection to one of two pools. Once it is switched, new RPCs go to the second; open streams stay with the first.
type switchConn struct {
	one, two grpc.ClientConnInterface
	switched atomic.Bool
	streams  atomic.Int32 // CallTools streams that were opened, to both pools
}

func (c *switchConn) current() grpc.ClientConnInterface {
	if c.switched.Load() {
		return c.two
	}
	return c.one
}

func (c *switchConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.current().Invoke(ctx, method, args, reply, opts...)
}

func (c *switchConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if method == mcppoolv1.McpPoolService_CallTools_FullMethodName {
		c.streams.Add(1)
	}
	return c.current().NewStream(ctx, desc, method, opts...)
}

// A task's calls share a stream as long as one pool is responsible for them. Once another pool is, later calls go to a stream to that
// pool, though the first stream still works.
func TestStreamsFollowTheResponsiblePool(t *testing.T) {
	another := fake.NewPool()
	x := &switchConn{two: grpctest.Serve(t, func(s grpc.ServiceRegistrar) { mcppoolv1.RegisterMcpPoolServiceServer(s, another) }, serve.Options{})}
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script("read", "read", "read", "read"), pool: fake.NewPool()}
	r.connect = func(one grpc.ClientConnInterface) grpc.ClientConnInterface {
		x.one = one
		return x
	}
	calls := 0
	r.pool.CallFn = func(_ ctx, req *callRequest, send func(*callResponse) error) error {
		if calls++; calls == 2 {
			x.switched.Store(true)
			r.pool.Restart() // it knows nothing of earlier calls
		}
		return send(fake.TextResult("first pool", false))
	}
	r.start()
	events := r.run(auto("look"))
	if last := events[len(events)-1].GetType(); last != executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS {
		t.Fatalf("it ended with %v", last)
	}
	if one, two := len(r.pool.Called()), len(another.Called()); one != 2 || two != 2 {
		t.Errorf("%d calls at the first pool, %d at the second, want 2 and 2", one, two)
	}
	if n := x.streams.Load(); n != 2 {
		t.Errorf("%d streams of calls, want one to each pool", n)
	}
}

// If the first pool refuses a call as the task's run time ends, and another pool becomes responsible, the task ends all the same.
func TestRunTimeEndsAMovedCall(t *testing.T) {
	another := fake.NewPool()
	another.CallFn = fake.Hang
	x := &switchConn{two: grpctest.Serve(t, func(s grpc.ServiceRegistrar) { mcppoolv1.RegisterMcpPoolServiceServer(s, another) }, serve.Options{})}
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script("read"), pool: fake.NewPool()}
	r.connect = func(one grpc.ClientConnInterface) grpc.ClientConnInterface {
		x.one = one
		return x
	}
	r.pool.CallFn = func(c ctx, _ *callRequest, _ func(*callResponse) error) error {
		<-c.Done() // it is told to stop
		x.switched.Store(true)
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_OTHER_POOL, "another pool is responsible").
			With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	r.start()
	req := auto("look")
	req.Budget = &executorv1.Budget{MaxRunTime: durationpb.New(200 * time.Millisecond)}
	id := r.create(req).GetId()
	r.until(id, flowFailed)
	if e := r.task(id).GetError(); e.GetReason() != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
		t.Errorf("error %v", e)
	}
}
