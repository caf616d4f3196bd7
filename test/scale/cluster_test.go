package scale

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/services/identity"

	"pawl.dev/test/rig"
)

// users are those whose tasks run.
var users = []string{"ann", "bob"}

// cluster is an executor, a planner and several pools, all processes.
type cluster struct {
	dir, config, starts string
	keys                *identity.KeyFile
	keyFile             string
	addrs               []string
	pools               map[string]*rig.Process // by address
	executor            *rig.Process
	executorArgs        []string
	conn                *grpc.ClientConn // to the executor, without a key
	clients             map[string]rig.Client
	poolArgs            func(addr string) []string // besides the usual ones; may be nil
}

// newCluster starts that many pools, whose MCP configuration has the servers. The executor's list of pools has one address more.
func newCluster(t *testing.T, pools int, servers ...string) *cluster {
	t.Helper()
	return newClusterOf(t, pools, nil, servers...)
}

// newClusterOf is newCluster with prepare, if not nil, called once there are addresses and keys: it may set poolArgs.
func newClusterOf(t *testing.T, pools int, prepare func(*cluster), servers ...string) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir(), pools: map[string]*rig.Process{}, clients: map[string]rig.Client{}}
	c.config, c.starts = mcpConfig(t, c.dir, servers...)
	c.keyFile = filepath.Join(c.dir, "keys.yaml")
	var err error
	if c.keys, err = identity.OpenKeyFile(c.keyFile); err != nil {
		t.Fatal(err)
	}
	service := c.key(t, "executor", identity.RoleService)
	for range pools + 1 {
		c.addrs = append(c.addrs, rig.FreeAddr(t))
	}
	if prepare != nil {
		prepare(c)
	}
	for _, addr := range c.addrs[:pools] {
		c.startPool(t, addr)
	}
	planner, executor := rig.FreeAddr(t), rig.FreeAddr(t)
	rig.Start(t, binaries.Planner, "--grpc", planner, "--keys", c.keyFile)
	serving(t, rig.Dial(t, planner, "")) // the creator of a task must reach it
	c.executorArgs = []string{
		"--grpc", executor, "--data", filepath.Join(c.dir, "tasks"), "--planner", planner, "--pool", strings.Join(c.addrs, ","),
		"--keys", c.keyFile, "--service-key", service, "--max-requests", "0", "--max-running", "100",
	}
	for _, sub := range users {
		c.clients[sub] = rig.NewGRPC(rig.Dial(t, executor, c.key(t, sub, identity.RoleUser)))
	}
	c.conn = rig.Dial(t, executor, "")
	c.startExecutor(t)
	return c
}

func (c *cluster) key(t *testing.T, sub string, roles ...identity.Role) string {
	t.Helper()
	token, _, err := c.keys.Add(identity.Key{Sub: sub, Roles: roles, Note: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// startPool starts the pool of an address and returns when it serves.
func (c *cluster) startPool(t *testing.T, addr string) *rig.Process {
	t.Helper()
	args := []string{"--grpc", addr, "--mcp-config", c.config, "--keys", c.keyFile, "--drain-timeout", "15s"}
	if c.poolArgs != nil {
		args = append(args, c.poolArgs(addr)...)
	}
	p := rig.Start(t, binaries.Pool, args...)
	c.pools[addr] = p
	serving(t, rig.Dial(t, addr, ""))
	return p
}

func (c *cluster) startExecutor(t *testing.T) {
	t.Helper()
	c.executor = rig.Start(t, binaries.Executor, c.executorArgs...)
	serving(t, c.conn)
}

func serving(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := eventually(ctx, conn.Target()+" does not serve", func() bool {
		res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		return err == nil && res.GetStatus() == healthpb.HealthCheckResponse_SERVING
	})
	if err != nil {
		t.Fatal(err)
	}
}

// poolOf returns the pool that has the connection to a server that only one user uses.
func (c *cluster) poolOf(t *testing.T, server string) (addr string, p *rig.Process) {
	t.Helper()
	for _, b := range started(t, c.starts) {
		for addr, p := range c.pools {
			if b.Server == server && b.Pool == p.PID() {
				return addr, p
			}
		}
	}
	t.Fatalf("no pool has started %s: %v", server, started(t, c.starts))
	return "", nil
}
