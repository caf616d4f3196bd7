//go:build unix

package serve_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// echo answers each call of a stream with a text.
type echo struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
}

func (echo) CallTools(stream grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		result := &mcppoolv1.CallResult{Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: req.GetCall().GetInputJson()}}}}
		err = stream.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Call{
			Call: &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: result}},
		}})
		if err != nil {
			return err
		}
	}
}

// The cost of calls between two processes: over TCP, with keys and all interceptors. 32 callers share a connection.
func BenchmarkTCP(b *testing.B) {
	keys, err := identity.OpenKeyFile(b.TempDir() + "/keys.yaml")
	if err != nil {
		b.Fatal(err)
	}
	srv, err := serve.New(serve.Options{Auth: keys})
	if err != nil {
		b.Fatal(err)
	}
	(&service{UnaryFn: func(context.Context) error { return nil }}).register(srv)
	mcppoolv1.RegisterMcpPoolServiceServer(srv, echo{})
	lis, err := serve.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, lis) }()
	conn, err := serve.Dial(lis.Addr().String(), keys.Ephemeral("svc", []identity.Role{identity.RoleService}))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		if err := errors.Join(conn.Close(), <-served); err != nil {
			b.Error(err)
		}
	})
	b.Run("unary", func(b *testing.B) {
		c, in := testgrpc.NewTestServiceClient(conn), &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: make([]byte, 300)}}
		atOnce(b, func(context.Context) (func(context.Context) error, error) {
			return func(ctx context.Context) error {
				_, err := c.UnaryCall(identity.OnBehalfOf(ctx, "ann"), in)
				return err
			}, nil
		})
	})
	b.Run("call", func(b *testing.B) { // on a stream that is there
		c := mcppoolv1.NewMcpPoolServiceClient(conn)
		atOnce(b, func(ctx context.Context) (func(context.Context) error, error) {
			stream, err := c.CallTools(identity.OnBehalfOf(ctx, "ann"))
			if err != nil {
				return nil, err
			}
			req := &mcppoolv1.CallToolsRequest{Call: &mcppoolv1.CallToolRequest{
				McpId: "files", Name: "read_file", InputJson: `{"path":"docs/readme.md"}`, SessionId: "0190c1a2-7d3e-7b6f-9a51-0c2f1de8a001",
				CallId: "0190c1a2-7d3e-7b6f-9a51-0c2f1de8a001/3/1", IdempotencyKey: "0190c1a2-7d3e-7b6f-9a51-0c2f1de8a001/3",
			}}
			return func(context.Context) error {
				if err := stream.Send(req); err != nil {
					return err
				}
				_, err := stream.Recv()
				return err
			}, nil
		})
	})
}

// atOnce does things by 32 goroutines, and reports the CPU time of client and server.
func atOnce(b *testing.B, begin func(context.Context) (func(context.Context) error, error)) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	work := make(chan struct{})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			do, err := begin(ctx)
			for range work {
				if err != nil {
					b.Error(err)
					continue
				}
				for range 10 {
					if err = do(ctx); err != nil {
						break
					}
				}
			}
		})
	}
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(10*b.N), "cpu-µs/call")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
