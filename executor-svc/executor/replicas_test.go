package executor_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/fake"
)

// replicas is a connection to several pools, one of which is responsible for all servers now.
type replicas struct {
	grpc.ClientConnInterface
	addrs []string
	first *fake.Pool
}

func (r *replicas) Addrs(context.Context) ([]string, error)  { return r.addrs, nil }
func (r *replicas) At(addr string) (*grpc.ClientConn, error) { return serve.Dial(addr, "") }

// makeResponsible makes the pool at addr responsible for all servers.
func (r *replicas) makeResponsible(t *testing.T, addr string) {
	t.Helper()
	conn, err := serve.Dial(addr, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.ClientConnInterface = conn
}

// attachedTo returns the ids of the calls that a pool was asked to attach to, and of those for which it was to ask the server too.
func attachedTo(p *fake.Pool) (asked, ofServer []string) {
	for _, req := range p.Seen().Attached {
		asked = append(asked, req.GetCallId())
		if req.GetTaskId() != "" {
			ofServer = append(ofServer, req.GetCallId())
		}
	}
	return asked, ofServer
}

// listening serves a pool on an address of its own.
func listening(t *testing.T, p *fake.Pool) (addr string) {
	t.Helper()
	unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local()})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	mcppoolv1.RegisterMcpPoolServiceServer(server, p)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(lis) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return lis.Addr().String()
}

// twoPools returns a stopped rig with two pools. The second is r.pool, which runs a call as an MCP task until finish is closed. The
// first can ask its server for the result of any MCP task.
func twoPools(t *testing.T) (r *rig, pools *replicas, finish chan struct{}) {
	r = newRig(t, fake.Script("write"))
	r.stop()
	r.cfg.DrainTimeout = time.Millisecond
	r.keepPool, r.pool.Detached = true, true
	finish = make(chan struct{})
	r.pool.CallFn = func(ctx context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		if err := send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Task{Task: &mcppoolv1.CallTask{TaskId: "mcp-7"}}}); err != nil {
			return err
		}
		if err := send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Progress{Progress: &mcppoolv1.CallProgress{Progress: 1}}}); err != nil {
			return err
		}
		select {
		case <-finish:
			return send(fake.TextResult("from the pool", false))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	first := fake.NewPool()
	first.TaskFn = func(*mcppoolv1.AttachCallRequest) (*mcppoolv1.CallResult, error) {
		return fake.TextResult("from the server", false).GetResult(), nil
	}
	pools = &replicas{addrs: []string{listening(t, first), listening(t, r.pool)}, first: first}
	r.connect = func(grpc.ClientConnInterface) grpc.ClientConnInterface { return pools }
	return r, pools, finish
}

// A call runs as an MCP task in one pool when the executor dies, and the next executor finds another pool responsible. All pools are
// asked for the call first. Only if none knows it does the responsible one ask the server for the MCP task.
func TestCallOfAnotherReplica(t *testing.T) {
	for name, c := range map[string]struct {
		forgets bool
		want    string
		asks    int // how often the responsible pool asks the server
	}{
		"it runs":                {false, `{"message":"from the pool"}`, 0},
		"its pool has forgotten": {true, `{"message":"from the server"}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, pools, finish := twoPools(t)
			pools.makeResponsible(t, pools.addrs[1])
			r.start()
			id := r.create(free(r)).GetId()
			r.until(id, executorv1.EventType_EVENT_TYPE_TOOL_PROGRESS)
			r.stop()
			if c.forgets {
				r.pool.Die()
			}
			r.pool.BeforeAttach = sync.OnceFunc(func() {
				if asked, ofServer := attachedTo(pools.first); len(asked) == 0 || len(ofServer) > 0 {
					t.Errorf("before the pool of the call, the responsible one was asked %d times, %d times to ask the server", len(asked), len(ofServer))
				}
				close(finish)
			})
			pools.makeResponsible(t, pools.addrs[0])
			r.start()
			r.until(id, flowSuccess)
			if n := len(pools.first.Called()) + len(r.pool.Called()); n != 1 || r.output(id) != c.want {
				t.Errorf("%d calls, output %s, want %s", n, r.output(id), c.want)
			}
			if _, ofServer := attachedTo(pools.first); len(ofServer) != c.asks {
				t.Errorf("the server was asked for %v", ofServer)
			}
			if asked, ofServer := attachedTo(r.pool); len(asked) == 0 || len(ofServer) > 0 {
				t.Errorf("the pool of the call was asked for %v, and its server for %v", asked, ofServer)
			}
		})
	}
}
