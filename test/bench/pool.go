package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"time"

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
func stdioTool() (map[string]any, error) {
	self, err := os.Executable()
	tools := map[string]any{"echo": map[string]string{"effect": "read"}}
	return map[string]any{"command": self, "env": map[string]string{toolVariable: "1"}, "tools": tools}, err
}

// poolAlone measures what the pool adds to a call, and what an idle connection costs.
func (b *bench) poolAlone(ctx context.Context, d *document) error {
	if err := b.poolCalls(ctx, d); err != nil {
		return err
	}
	return b.poolIdle(ctx, d)
}

// poolIdle measures the memory of idle connections.
func (b *bench) poolIdle(ctx context.Context, d *document) error {
	web := httptest.NewServer(server.NewStreamableHTTPServer(mcpserver.New()))
	defer web.Close()
	tool, err := stdioTool()
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
