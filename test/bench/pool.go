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

// alone is a pool by itself, and the keys to call it.
type alone struct {
	*process
	conn *grpc.ClientConn
	pool mcppoolv1.McpPoolServiceClient
}

// startPool starts a pool with further servers, which a service calls for users.
func (b *bench) startPool(ctx context.Context, env []string, servers map[string]any) (_ *alone, err error) {
	dir, err := b.folder()
	if err != nil {
		return nil, err
	}
	keys, err := identity.OpenKeyFile(filepath.Join(dir, "keys.yaml"))
	if err != nil {
		return nil, err
	}
	token, _, err := keys.Add("bench", []identity.Role{identity.RoleService}, "benchmark")
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(config, raw, 0o600); err != nil {
		return nil, err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	a := &alone{}
	a.process, err = b.start("pool", env, b.programs.pool, "--grpc", addr, "--mcp-config", config, "--keys", filepath.Join(dir, "keys.yaml"),
		"--max-connections", strconv.Itoa(2*idleConnections))
	if err != nil {
		return nil, err
	}
	if err := a.await(ctx, func(ctx context.Context) bool { return serving(ctx, addr) }); err != nil {
		return nil, errors.Join(err, a.process.stop())
	}
	if a.conn, err = serve.Dial(addr, token); err != nil {
		return nil, errors.Join(err, a.process.stop())
	}
	a.pool = mcppoolv1.NewMcpPoolServiceClient(a.conn)
	return a, nil
}

func (a *alone) stop() error { return errors.Join(a.conn.Close(), a.process.stop()) }

// stdioTool is this program as an MCP server.
func stdioTool() (map[string]any, string, error) {
	self, err := os.Executable()
	tools := map[string]any{"echo": map[string]string{"effect": "read"}}
	return map[string]any{"command": self, "env": map[string]string{toolVariable: "1"}, "tools": tools}, self, err
}

// poolAlone measures what the pool adds to a call, and what a connection that nobody uses costs.
func (b *bench) poolAlone(ctx context.Context, d *document) error {
	if err := b.poolCalls(ctx, d); err != nil {
		return err
	}
	return b.poolIdle(ctx, d)
}

// callOnce makes one call of echo.
type callOnce func(context.Context) error

// poolCalls compares a call through the pool, over gRPC on loopback with a key, with one that mcp-go makes by itself, and with one
// that goes through gRPC and no more.
func (b *bench) poolCalls(ctx context.Context, d *document) (err error) {
	tool, _, err := stdioTool()
	if err != nil {
		return err
	}
	a, err := b.startPool(ctx, nil, map[string]any{"t": tool})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	floor, err := b.startFloor(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.stop()) }()
	client, err := directClient(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ways := []callOnce{directCall(client), floor.namedCall(), a.namedCall()}
	p50s, rates := make([][]float64, len(ways)), make([][]float64, len(ways))
	for range b.rounds {
		p50, err := latencies(ctx, b.few(5000), ways...)
		if err != nil {
			return err
		}
		for i, way := range ways {
			each, err := rate(ctx, b.each, way)
			if err != nil {
				return err
			}
			p50s[i], rates[i] = append(p50s[i], p50[i]), append(rates[i], each)
		}
		last := len(rates[0]) - 1
		b.logf("pool: p50 %.3f ms added, of which gRPC %.3f; %.2f of the throughput, gRPC alone %.2f",
			p50[2]-p50[0], p50[1]-p50[0], rates[2][last]/rates[0][last], rates[1][last]/rates[0][last])
	}
	showCalls(d, b.rounds, p50s, rates)
	return nil
}

// showCalls shows the ways in the order alone, gRPC, pool.
func showCalls(d *document, rounds int, p50s, rates [][]float64) {
	beside := func(of [][]float64, i int, how func(way, alone float64) float64) float64 {
		var all []float64
		for round := range of[i] {
			all = append(all, how(of[i][round], of[0][round]))
		}
		return median(all)
	}
	minus := func(way, alone float64) float64 { return way - alone }
	share := func(way, alone float64) float64 { return way / alone }
	d.text("A call of a tool over stdio through the pool, as an executor makes it (gRPC on loopback, a key, a name, the acknowledgement of the call before), "+
		"beside the same that mcp-go makes by itself, and beside a server that passes calls on by gRPC and mcp-go and does nothing else: what that adds is the floor "+
		"of anything behind gRPC on this machine. Medians of %d round(s), in turns.", rounds)
	d.table([]string{"", "mcp-go alone", "bare gRPC before it", "through the pool", "bare gRPC adds", "the pool adds", "target"}, [][]string{
		{"p50 of one caller, ms", figure(median(p50s[0])), figure(median(p50s[1])), figure(median(p50s[2])),
			figure(beside(p50s, 1, minus)), figure(beside(p50s, 2, minus)), "≤ 0.15"},
		{fmt.Sprintf("calls/s of %d callers", poolCallers), figure(median(rates[0])), figure(median(rates[1])), figure(median(rates[2])),
			fmt.Sprintf("%.2f ×", beside(rates, 1, share)), fmt.Sprintf("%.2f ×", beside(rates, 2, share)), "≥ 0.45 ×"},
	})
}

func directCall(c *mcpclient.Client) callOnce {
	return func(ctx context.Context) error {
		_, err := c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}}})
		return err
	}
}

// namedCall calls as an executor does.
func (a *alone) namedCall() callOnce {
	var n atomic.Uint64
	return func(ctx context.Context) error {
		id := n.Add(1)
		return call(identity.OnBehalfOf(ctx, "ann"), a.pool, &mcppoolv1.CallToolRequest{
			McpId: "t", Name: "echo", InputJson: `{"text":"hello"}`, SessionId: "task", Epoch: 1, IdempotencyKey: "key",
			CallId: "task/" + strconv.FormatUint(id, 10), AckCallIds: []string{"task/" + strconv.FormatUint(id-1, 10)},
		})
	}
}

func call(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, req *mcppoolv1.CallToolRequest) error {
	stream, err := pool.CallTool(ctx, req)
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if m.GetResult() != nil {
			_, _ = stream.Recv() // its end
			return nil
		}
	}
}

// latencies are the medians of calls that one caller makes in turns, in ms.
func latencies(ctx context.Context, n int, ways ...callOnce) ([]float64, error) {
	times := make([][]time.Duration, len(ways))
	for i := range n {
		for j, once := range ways {
			began := time.Now()
			if err := once(ctx); err != nil {
				return nil, err
			}
			if i >= n/10 { // what comes before warms up
				times[j] = append(times[j], time.Since(began))
			}
		}
	}
	p50 := make([]float64, len(ways))
	for j := range ways {
		p50[j], _ = quantiles(times[j])
	}
	return p50, nil
}

// rate is how many calls many callers make in a second.
func rate(ctx context.Context, each time.Duration, once callOnce) (float64, error) {
	until, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	var calls atomic.Int64
	var failed error
	var fail sync.Once
	var work sync.WaitGroup
	began := time.Now()
	for range poolCallers {
		work.Go(func() {
			for until.Err() == nil {
				if err := once(ctx); err != nil {
					fail.Do(func() { failed = err })
					return
				}
				calls.Add(1)
			}
		})
	}
	work.Wait()
	return float64(calls.Load()) / time.Since(began).Seconds(), failed
}

// poolIdle measures the memory of connections that nobody uses.
func (b *bench) poolIdle(ctx context.Context, d *document) error {
	web := httptest.NewServer(server.NewStreamableHTTPServer(mcpserver.New()))
	defer web.Close()
	tool, _, err := stdioTool()
	if err != nil {
		return err
	}
	var rows [][]string
	for _, k := range []struct {
		what   string
		server any
		count  int
		idle   time.Duration
	}{
		{"streamable HTTP", map[string]any{"url": web.URL + "/mcp"}, b.few(idleConnections), idleFor},
		{"stdio, without the child processes", tool, b.few(idleChildren), 0},
	} {
		each, err := b.idleCost(ctx, k.server, k.count, k.idle)
		if err != nil {
			return err
		}
		rows = append(rows, []string{k.what, strconv.Itoa(k.count), figure(each), "< 64"})
		b.logf("pool: %.1f KiB per idle connection, %s", each, k.what)
	}
	d.text("**Connections that nobody uses**: each of one user, who has listed the tools. What the pool's anonymous memory grew by, some while later; " +
		"with GOGC=50 and GOMEMLIMIT=8MiB, so that garbage hardly counts.")
	d.table([]string{"transport", "connections", "KiB each", "target"}, rows)
	return nil
}

// idleCost is what a pool's memory grows by with each connection, in KiB.
func (b *bench) idleCost(ctx context.Context, mcpServer any, n int, idle time.Duration) (_ float64, err error) {
	a, err := b.startPool(ctx, []string{"GOGC=50", "GOMEMLIMIT=8MiB"}, map[string]any{"t": mcpServer})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	connect := func(user string) error {
		_, err := a.pool.ListTools(identity.OnBehalfOf(ctx, user), &mcppoolv1.ListToolsRequest{McpId: "t", PageSize: 1})
		return err
	}
	// The first ones bring what all share.
	warm := max(n/20, 2)
	for i := range warm {
		if err := connect("warm-" + strconv.Itoa(i)); err != nil {
			return 0, err
		}
	}
	before, err := a.settled(ctx, 0)
	if err != nil {
		return 0, err
	}
	for i := range n {
		if err := connect("user-" + strconv.Itoa(i)); err != nil {
			return 0, err
		}
	}
	after, err := a.settled(ctx, idle)
	return (after - before) * 1024 / float64(n), err
}

// settled is a pool's memory after a while, without most of its garbage, in MB.
func (a *alone) settled(ctx context.Context, idle time.Duration) (float64, error) {
	select {
	case <-time.After(idle):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for range settling {
		if _, err := a.pool.ListMcpServers(identity.OnBehalfOf(ctx, "nobody"), &mcppoolv1.ListMcpServersRequest{}); err != nil {
			return 0, err
		}
	}
	return anonymousMB(a.pid)
}
