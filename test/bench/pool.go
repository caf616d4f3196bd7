package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"

	"pawl.dev/test/mcpserver"
)

const (
	// idleConnections are made over HTTP, and idleChildren to processes, which have memory of their own.
	idleConnections = 1000
	idleChildren    = 100
	// idleFor is longer than a pool keeps a TCP connection open that is not listened on.
	idleFor = 32 * time.Second
	// settling are small calls that let a pool collect its garbage.
	settling = 3000
	// poolCallers are how many call at once where the throughput is measured.
	poolCallers = 32
)

// alone is a pool by itself, which a service calls for users.
type alone struct {
	*process
	mcppoolv1.McpPoolServiceClient
}

// startPool starts a pool with one server, t, until the measurement ends.
func (b *bench) startPool(ctx context.Context, env []string, mcpServer any) *alone {
	dir := b.folder()
	file, config := filepath.Join(dir, "keys.yaml"), filepath.Join(dir, "mcp.json")
	token, _, err := must(identity.OpenKeyFile(file)).Add("bench", []identity.Role{identity.RoleService}, "benchmark")
	check(err)
	check(os.WriteFile(config, must(json.Marshal(map[string]any{"mcpServers": map[string]any{"t": mcpServer}})), 0o600))
	addr := freeAddrs(ctx, 1)[0]
	a := &alone{process: b.serve(ctx, "pool", addr, env, b.program("mcppool-svc"), "--mcp-config", config, "--keys", file, "--max-connections", strconv.Itoa(2*idleConnections))}
	conn := must(serve.Dial(addr, token))
	b.atEnd(conn.Close)
	a.McpPoolServiceClient = mcppoolv1.NewMcpPoolServiceClient(conn)
	return a
}

// stdioTool is this program as an MCP server.
func stdioTool() map[string]any {
	tools := map[string]any{"echo": map[string]string{"effect": "read"}}
	return map[string]any{"command": must(os.Executable()), "env": map[string]string{toolVariable: "1"}, "tools": tools}
}

// poolAlone measures what the pool adds to a call, and what an idle connection costs.
func (b *bench) poolAlone(ctx context.Context, d *document) {
	b.scope(func() { b.poolCalls(ctx, d) })
	b.poolIdle(ctx, d)
}

// poolIdle measures the memory of idle connections.
func (b *bench) poolIdle(ctx context.Context, d *document) {
	web := httptest.NewServer(server.NewStreamableHTTPServer(mcpserver.New()))
	defer web.Close()
	var rows [][]string
	for _, k := range []struct {
		what   string
		server any
		count  int
		idle   time.Duration
	}{
		{"streamable HTTP", map[string]any{"url": web.URL + "/mcp"}, b.few(idleConnections), idleFor},
		{"stdio, without the child processes", stdioTool(), b.few(idleChildren), 0},
	} {
		var each float64
		b.scope(func() { each = b.idleCost(ctx, k.server, k.count, k.idle) })
		rows = append(rows, []string{k.what, strconv.Itoa(k.count), figure(each), "< 64"})
		b.logf("pool: %.1f KiB per idle connection, %s", each, k.what)
	}
	d.text("**Idle connections**: each of one user, who has listed the tools. What the pool's anonymous memory grew by, some while later; " +
		"with GOGC=50 and GOMEMLIMIT=8MiB, so that garbage hardly counts.")
	d.table([]string{"transport", "connections", "KiB each", "target"}, rows)
}

// idleCost is what a pool's memory grows by with each connection, in KiB.
func (b *bench) idleCost(ctx context.Context, mcpServer any, n int, idle time.Duration) float64 {
	a := b.startPool(ctx, []string{"GOGC=50", "GOMEMLIMIT=8MiB"}, mcpServer)
	connect := func(kind string, n int) {
		for i := range n {
			must(a.ListTools(identity.OnBehalfOf(ctx, kind+"-"+strconv.Itoa(i)), &mcppoolv1.ListToolsRequest{McpId: "t", PageSize: 1}))
		}
	}
	// The first ones bring what all share.
	connect("warm", max(n/20, 2))
	before := a.settled(ctx, 0)
	connect("user", n)
	return (a.settled(ctx, idle) - before) * 1024 / float64(n)
}

// settled is a pool's memory after a while, without most of its garbage, in MB.
func (a *alone) settled(ctx context.Context, idle time.Duration) float64 {
	select {
	case <-time.After(idle):
	case <-ctx.Done():
		check(ctx.Err())
	}
	for range settling {
		must(a.ListMcpServers(identity.OnBehalfOf(ctx, "idle"), &mcppoolv1.ListMcpServersRequest{}))
	}
	return must(anonymousMB(a.pid))
}

// way is one of making a call of echo.
type way struct {
	name string
	once func(context.Context) error
}

// poolCalls compares a call through the pool, over gRPC on loopback with a key, with one that mcp-go makes by itself.
func (b *bench) poolCalls(ctx context.Context, d *document) {
	a := b.startPool(ctx, nil, stdioTool())
	direct := must(mcpclient.NewStdioMCPClient(must(os.Executable()), append(os.Environ(), toolVariable+"=1")))
	b.atEnd(func() error {
		_ = direct.Close() // the program was told to end
		return nil
	})
	must(direct.Initialize(ctx, mcp.InitializeRequest{}))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the streams
	ways := []way{
		{"mcp-go alone", func(ctx context.Context) error {
			_, err := direct.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}}})
			return err
		}},
		{"one gRPC call each, through the pool", a.singly()}, {"over a stream, through the pool", a.streamed(ctx)},
	}
	p50s, rates := make([][]float64, len(ways)), make([][]float64, len(ways))
	for round := range b.rounds {
		p50 := latencies(ctx, b.few(5000), ways)
		for i, w := range ways {
			p50s[i], rates[i] = append(p50s[i], p50[i]), append(rates[i], rate(ctx, b.each, w))
			b.logf("pool: %s: p50 %.3f ms added, %.2f of the throughput", w.name, p50[i]-p50[0], rates[i][round]/rates[0][round])
		}
	}
	showCalls(d, b.rounds, ways, p50s, rates)
}

// showCalls shows all ways beside the first.
func showCalls(d *document, rounds int, ways []way, p50s, rates [][]float64) {
	d.text("A call of a tool over stdio through the pool (gRPC on loopback, a key, a name, the acknowledgement of the call before), by itself or over a stream of calls, as an "+
		"executor's tasks make them; beside the same that mcp-go makes by itself. Medians of %d round(s), in turns. Targets: at most 0.15 ms added, at least 0.45 of the throughput.", rounds)
	var rows [][]string
	for i, w := range ways {
		row := []string{w.name, figure(median(p50s[i])), none, figure(median(rates[i])), none}
		if i > 0 {
			var added, share []float64
			for round := range rounds {
				added, share = append(added, p50s[i][round]-p50s[0][round]), append(share, rates[i][round]/rates[0][round])
			}
			row[2], row[4] = figure(median(added)), fmt.Sprintf("%.2f ×", median(share))
		}
		rows = append(rows, row)
	}
	d.table([]string{"", "p50 of one caller, ms", "added", fmt.Sprintf("calls/s of %d callers", poolCallers), "of mcp-go alone"}, rows)
}

// echoCall is how an executor makes a call.
func echoCall(id uint64) *mcppoolv1.CallToolRequest {
	return &mcppoolv1.CallToolRequest{
		McpId: "t", Name: "echo", InputJson: `{"text":"hello"}`, SessionId: "task", Epoch: 1, IdempotencyKey: "key",
		CallId: "task/" + strconv.FormatUint(id, 10), AckCallIds: []string{"task/" + strconv.FormatUint(id-1, 10)},
	}
}

// singly makes a gRPC call for each.
func (a *alone) singly() func(context.Context) error {
	var n atomic.Uint64
	return func(ctx context.Context) error {
		stream, err := a.CallTool(identity.OnBehalfOf(ctx, "ann"), echoCall(n.Add(1)))
		for err == nil {
			var m *mcppoolv1.CallToolResponse
			if m, err = stream.Recv(); m.GetResult() != nil {
				_, _ = stream.Recv() // its end
				return nil
			}
		}
		return err
	}
}

// streamed makes calls over streams, as many as there are callers at once. They end with life.
func (a *alone) streamed(life context.Context) func(context.Context) error {
	var n atomic.Uint64
	free := make(chan grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse], poolCallers)
	return func(context.Context) (err error) {
		var stream grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]
		select {
		case stream = <-free:
		default:
			if stream, err = a.CallTools(identity.OnBehalfOf(life, "ann")); err != nil {
				return err
			}
		}
		if err := stream.Send(&mcppoolv1.CallToolsRequest{Call: echoCall(1<<32 + n.Add(1))}); err != nil {
			return err
		}
		for {
			m, err := stream.Recv()
			switch {
			case err != nil:
				return err
			case m.GetError() != nil:
				return errors.New(m.GetError().GetMessage())
			case m.GetCall().GetResult() != nil:
				free <- stream
				return nil
			}
		}
	}
}

// latencies are the medians of calls that one caller makes in turns, in ms.
func latencies(ctx context.Context, n int, ways []way) []float64 {
	times, p50 := make([][]time.Duration, len(ways)), make([]float64, len(ways))
	for i := range n {
		for j, w := range ways {
			began := time.Now()
			check(w.once(ctx))
			if i >= n/10 { // what comes before warms up
				times[j] = append(times[j], time.Since(began))
			}
		}
	}
	for j := range ways {
		p50[j], _ = quantiles(times[j])
	}
	return p50
}

// rate is how many calls many callers make in a second.
func rate(ctx context.Context, each time.Duration, w way) float64 {
	until, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	var calls atomic.Int64
	failed := make(chan error, poolCallers)
	var work sync.WaitGroup
	began := time.Now()
	for range poolCallers {
		work.Go(func() {
			for until.Err() == nil {
				if err := w.once(ctx); err != nil {
					failed <- err
					return
				}
				calls.Add(1)
			}
		})
	}
	work.Wait()
	took := time.Since(began)
	close(failed)
	check(<-failed)
	return float64(calls.Load()) / took.Seconds()
}
