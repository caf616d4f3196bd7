package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
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
	// idleConnections is the number of idle connections over HTTP.
	idleConnections = 1000
	// idleChildren is the number of idle connections over stdio, each of which has a process.
	idleChildren = 100
	// idleFor is longer than a pool keeps an unused TCP connection open.
	idleFor = 32 * time.Second
	// settling is the number of small calls after which a pool has collected most of its garbage.
	settling = 3000
	// poolCallers is the number of concurrent callers when the throughput is measured.
	poolCallers = 32
)

// standalonePool is a pool without an executor. The benchmark calls it as a service, for users.
type standalonePool struct {
	*process
	mcppoolv1.McpPoolServiceClient
}

// startPool starts a pool with the MCP server t until the measurement ends.
func (b *bench) startPool(ctx context.Context, env []string, mcpServer any) *standalonePool {
	file := filepath.Join(b.folder(), "keys.yaml")
	token, _, err := must(identity.OpenKeyFile(file)).Add(identity.Key{Sub: "bench", Roles: []identity.Role{identity.RoleService}, Note: "benchmark"})
	check(err)
	addr := freeAddrs(ctx, 1)[0]
	a := &standalonePool{process: b.serveWith(ctx, "pool", addr, env, nil, b.program("mcppool-svc"), "--mcp-config", b.mcpConfig(mcpServer), "--keys", file, "--max-connections", strconv.Itoa(2*idleConnections))}
	conn := must(serve.Dial(addr, token))
	b.atEnd(conn.Close)
	a.McpPoolServiceClient = mcppoolv1.NewMcpPoolServiceClient(conn)
	return a
}

// poolAlone measures the time that the pool adds to a call, and the memory of an idle connection.
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
		{"streamable HTTP", map[string]any{"url": web.URL + "/mcp"}, b.scaled(idleConnections), idleFor},
		{"stdio, without the child processes", stdioTool(), b.scaled(idleChildren), 0},
	} {
		var each float64
		b.scope(func() { each = b.idleCost(ctx, k.server, k.count, k.idle) })
		rows = append(rows, []string{k.what, strconv.Itoa(k.count), figure(each), "< 64"})
		b.logf("pool: %.1f KiB per idle connection, %s", each, k.what)
	}
	d.text("**Idle connections**: each of one user, who has listed the tools. The growth of the pool's anonymous memory, over HTTP measured %v later, when "+
		"the unused TCP connections are closed; with GOGC=50 and GOMEMLIMIT=8MiB, so that garbage hardly counts.", idleFor)
	d.table([]string{"transport", "connections", "KiB each", "target"}, rows)
}

// idleCost returns the memory that an idle connection adds to a pool, in KiB.
func (b *bench) idleCost(ctx context.Context, mcpServer any, n int, idle time.Duration) float64 {
	a := b.startPool(ctx, []string{"GOGC=50", "GOMEMLIMIT=8MiB"}, mcpServer)
	connect := func(kind string, n int) {
		for i := range n {
			must(a.ListTools(identity.OnBehalfOf(ctx, kind+"-"+strconv.Itoa(i)), &mcppoolv1.ListToolsRequest{McpId: "t", PageSize: 1}))
		}
	}
	// The first connections allocate the memory that all share.
	connect("warm", max(n/20, 2))
	before := a.settled(ctx, 0)
	connect("user", n)
	return (a.settled(ctx, idle) - before) * 1024 / float64(n)
}

// settled returns a pool's memory after the time idle, without most of its garbage, in MB.
func (a *standalonePool) settled(ctx context.Context, idle time.Duration) float64 {
	wait(ctx, idle)
	for range settling {
		must(a.ListMcpServers(identity.OnBehalfOf(ctx, "idle"), &mcppoolv1.ListMcpServersRequest{}))
	}
	return anonymousMB(a.pid)
}

// poolCalls compares a call through the pool, over gRPC on loopback with a key, with a call by mcp-go alone.
func (b *bench) poolCalls(ctx context.Context, d *document) {
	a := b.startPool(ctx, nil, stdioTool())
	direct := must(mcpclient.NewStdioMCPClient(must(os.Executable()), append(os.Environ(), toolVariable+"=1")))
	b.atEnd(func() error {
		_ = direct.Close() // the error only tells how the tool's process ended
		return nil
	})
	must(direct.Initialize(ctx, mcp.InitializeRequest{}))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the streams
	contenders := []*contender{
		{name: "mcp-go alone", run: func(ctx context.Context) error {
			_, err := direct.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}}})
			return err
		}},
		{name: "one gRPC call each, through the pool", run: a.separateCalls()}, {name: "over a stream, through the pool", run: a.streamCalls(ctx)},
	}
	b.inTurns(ctx, contenders, []int{1, poolCallers})
	d.text("A tool call over stdio through the pool (gRPC on loopback, with a key, the user's name and the acknowledgement of the call before): one gRPC call each, "+
		"or over a stream of calls, as an executor's tasks make them. mcp-go makes the same tool call without the pool. Medians of %d round(s), in turns. "+
		"Targets: at most 0.15 ms added, at least 0.45 of the throughput.", b.rounds)
	alone := contenders[0]
	var rows [][]string
	for _, w := range contenders {
		row := []string{w.name, figure(w.of(1, p50)), none, figure(w.of(poolCallers, perSecond)), none}
		if w != alone {
			row[2] = figure(w.of(1, p50) - alone.of(1, p50))
			row[4] = ratio(w.of(poolCallers, perSecond), alone.of(poolCallers, perSecond))
		}
		rows = append(rows, row)
	}
	d.table([]string{"", "p50 of one caller, ms", "added", fmt.Sprintf("calls/s of %d callers", poolCallers), "of mcp-go alone"}, rows)
}

// echoCall returns a call as an executor makes it.
func echoCall(id uint64) *mcppoolv1.CallToolRequest {
	return &mcppoolv1.CallToolRequest{
		McpId: "t", Name: "echo", InputJson: `{"text":"hello"}`, SessionId: "task", Epoch: 1, IdempotencyKey: "key",
		CallId: "task/" + strconv.FormatUint(id, 10), AckCallIds: []string{"task/" + strconv.FormatUint(id-1, 10)},
	}
}

// separateCalls returns a function that calls the tool with a gRPC call of its own.
func (a *standalonePool) separateCalls() func(context.Context) error {
	var n atomic.Uint64
	return func(ctx context.Context) error {
		stream, err := a.CallTool(identity.OnBehalfOf(ctx, "ann"), echoCall(n.Add(1)))
		for err == nil {
			var m *mcppoolv1.CallToolResponse
			if m, err = stream.Recv(); m.GetResult() != nil {
				_, _ = stream.Recv() // reads the end of the stream
				return nil
			}
		}
		return err
	}
}

// streamCalls returns a function that calls the tool over a free stream, or over a new stream if none is free. The streams end with streamCtx.
func (a *standalonePool) streamCalls(streamCtx context.Context) func(context.Context) error {
	var n atomic.Uint64
	free := make(chan grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse], poolCallers)
	return func(context.Context) (err error) {
		var stream grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]
		select {
		case stream = <-free:
		default:
			if stream, err = a.CallTools(identity.OnBehalfOf(streamCtx, "ann")); err != nil {
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
