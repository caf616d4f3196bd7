package mcppool

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
	"pawl.dev/services/strictjson"
)

// caller makes one call of echo.
type caller func(ctx context.Context) error

// BenchmarkCall compares calls through the pool, over gRPC on loopback with a key, with calls of mcp-go alone, both to the
// same kind of server over stdio: the median latencies of alternating calls, and the throughput of 1 and 32 callers. The
// pool is to add at most 150 µs at the median.
func BenchmarkCall(b *testing.B) {
	direct, pool := directCaller(b), poolCaller(b)
	b.Run("latency", func(b *testing.B) {
		var d, p []time.Duration
		for b.Loop() {
			d, p = append(d, timed(b, direct)), append(p, timed(b, pool))
		}
		median := func(of []time.Duration) float64 {
			slices.Sort(of)
			return float64(of[len(of)/2].Nanoseconds()) / 1e3
		}
		b.ReportMetric(median(d), "direct-p50-µs")
		b.ReportMetric(median(p), "pool-p50-µs")
		b.ReportMetric(median(p)-median(d), "added-p50-µs")
	})
	for _, callers := range []int{1, 32} {
		for name, call := range map[string]caller{"direct": direct, "pool": pool} {
			b.Run(name+"/callers="+strconv.Itoa(callers), func(b *testing.B) { throughput(b, callers, call) })
		}
	}
}

func timed(b *testing.B, call caller) time.Duration {
	start := time.Now()
	if err := call(b.Context()); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// throughput shares b.N calls between callers.
func throughput(b *testing.B, callers int, call caller) {
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// directCaller calls with mcp-go alone.
func directCaller(b *testing.B) caller {
	s := mcptest.Stdio(mcptest.Good)
	var env []string
	for k, v := range s.Env {
		env = append(env, k+"="+v)
	}
	c, err := mcpclient.NewStdioMCPClient(s.Command, env)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	if _, err := c.Initialize(b.Context(), mcpgo.InitializeRequest{}); err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context) error {
		_, err := c.CallTool(ctx, mcpgo.CallToolRequest{Params: mcpgo.CallToolParams{
			Name: "echo", Arguments: map[string]any{"text": "a"},
		}})
		return err
	}
}

// poolCaller calls as an executor does: with a call id, a session and the acknowledgement of the previous call.
func poolCaller(b *testing.B) caller {
	client := mcppoolv1.NewMcpPoolServiceClient(dial(b, Config{MCPConfigs: []string{fakeConfig(b, map[string]string{"fake": mcptest.Good})}}))
	tools, err := client.ListTools(b.Context(), &mcppoolv1.ListToolsRequest{McpId: "fake", Query: "echo"})
	if err != nil {
		b.Fatal(err)
	}
	tool := tools.GetTools()[0]
	var n atomic.Uint64
	return func(ctx context.Context) error {
		id := n.Add(1)
		stream, err := client.CallTool(ctx, &mcppoolv1.CallToolRequest{
			McpId: "fake", Name: "echo", InputJson: `{"text":"a"}`, SessionId: "t1", Epoch: 1, CallId: "t1/" + strconv.FormatUint(id, 10),
			IdempotencyKey: "k", ExpectedDefinitionHash: tool.GetDefinitionHash(), ExpectedConfigRevision: tool.GetConfigRevision(),
			AckCallIds: []string{"t1/" + strconv.FormatUint(id-1, 10)},
		})
		if err != nil {
			return err
		}
		o := drain(stream)
		if o.err == nil && o.result == nil {
			return errors.New("no result")
		}
		return o.err
	}
}

// dial serves a pool on loopback and connects to it.
func dial(b *testing.B, cfg Config) *grpc.ClientConn {
	b.Helper()
	service, err := New(b.Context(), cfg, Deps{})
	if err != nil {
		b.Fatal(err)
	}
	keys, err := identity.OpenKeyFile(filepath.Join(b.TempDir(), "keys.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	srv, err := serve.New(serve.Options{Auth: keys})
	if err != nil {
		b.Fatal(err)
	}
	service.Register(srv)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(identity.BearerCredentials(keys.Ephemeral("ann", []identity.Role{identity.RoleUser}))))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := errors.Join(<-served, service.Close()); err != nil {
			b.Error(err)
		}
	})
	return conn
}

// BenchmarkBuiltin measures a call of a tool in this process, as a function and as an MCP server.
func BenchmarkBuiltin(b *testing.B) {
	function := Func{Name: "echo", Call: func(_ context.Context, arguments json.RawMessage) (Result, error) {
		var in struct{ Text string }
		err := json.Unmarshal(arguments, &in)
		return Result{Text: in.Text}, err
	}}
	service, err := New(b.Context(), Config{}, Deps{Builtins: map[string]Builtin{"function": {Tools: []Func{function}}, "server": echo(nil)}})
	if err != nil {
		b.Fatal(err)
	}
	defer service.Close()
	for _, name := range []string{"function", "server"} {
		b.Run(name, func(b *testing.B) {
			client, err := service.connector.Connect(b.Context(), builtinServer(name, ""), "ann")
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			call := mcp.Call{Name: "echo", Arguments: strictjson.Checked(`{"text":"hello"}`), Notify: func(mcp.Notification) {}, Meta: map[string]string{"pawl.dev/call-id": "t/1"}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.CallTool(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBesideAFlood measures calls of a good server with and without another server that floods the pool with
// notifications: the flood is to double the 99th percentile at most. On few processors the flooding process itself slows
// the calls too.
func BenchmarkBesideAFlood(b *testing.B) {
	config := fakeConfig(b, map[string]string{"good": mcptest.Good, "bad": mcptest.Hostile})
	client := mcppoolv1.NewMcpPoolServiceClient(dial(b, Config{MCPConfigs: []string{config}}))
	call := func(server, tool string) error {
		return invokeCtx(b.Context(), client, &mcppoolv1.CallToolRequest{McpId: server, Name: tool}).err
	}
	p99 := func(b *testing.B) float64 {
		if err := call("good", "info"); err != nil {
			b.Fatal(err)
		}
		var all []time.Duration
		for b.Loop() {
			all = append(all, timed(b, func(context.Context) error { return call("good", "info") }))
		}
		slices.Sort(all)
		return float64(all[len(all)*99/100].Nanoseconds()) / 1e3
	}
	b.Run("quiet", func(b *testing.B) { b.ReportMetric(p99(b), "p99-µs") })
	// The flood goes on after its call has ended.
	if err := call("bad", "floodforever"); err != nil {
		b.Fatal(err)
	}
	b.Run("flooded", func(b *testing.B) { b.ReportMetric(p99(b), "p99-µs") })
}
