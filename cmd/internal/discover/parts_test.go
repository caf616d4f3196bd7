package discover_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/discover"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

const poolPackage, plannerPackage = "pawl.mcppool.v1", "pawl.planner.v1"

// The executor is named. Pool and planner are called at their given addresses, or else at their default ones if they answer there; a
// server that offers all services is called for all.
func TestParts(t *testing.T) {
	executor, pool, planner := clitest.Serve(t, clitest.NewExecutor()), clitest.Serve(t, clitest.NewPool(t)), clitest.Serve(t, clitest.Planner(t))
	whole := clitest.Serve(t, clitest.NewExecutor(), clitest.NewPool(t), clitest.Planner(t))
	unused := closed(t)
	for name, tt := range map[string]struct {
		server        string
		pool, planner discover.Part
		says          string     // of the pool; "": it answers
		code          codes.Code // of what the server itself says to the pool's call
	}{
		"named":             {executor.Addr, discover.Part{Addr: pool.Addr, Given: true}, discover.Part{Addr: planner.Addr, Given: true}, "", 0},
		"guessed":           {executor.Addr, discover.Part{Addr: pool.Addr}, discover.Part{Addr: planner.Addr}, "", 0},
		"all in one":        {whole.Addr, discover.Part{Addr: unused}, discover.Part{Addr: unused}, "", 0},
		"named, not there":  {executor.Addr, discover.Part{Name: "pool", Addr: unused, Given: true}, discover.Part{Addr: planner.Addr}, "no pool answers at " + unused + ": dial tcp " + unused + ": connect: connection refused", 0},
		"named wrongly":     {executor.Addr, discover.Part{Name: "pool", Addr: planner.Addr, Given: true}, discover.Part{Addr: planner.Addr}, "no pool answers at " + planner.Addr + ": unknown service", 0},
		"guessed, not so":   {executor.Addr, discover.Part{Addr: unused}, discover.Part{Addr: planner.Addr}, "unknown service", codes.Unimplemented},
		"guessed, not this": {executor.Addr, discover.Part{Addr: planner.Addr}, discover.Part{Addr: planner.Addr}, "unknown service", codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			cfg.Server, cfg.Parts = tt.server, map[string]discover.Part{poolPackage: tt.pool, plannerPackage: tt.planner}
			session, err := opened(t, cfg, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := executorv1.NewExecutorServiceClient(session).ListTasks(t.Context(), &executorv1.ListTasksRequest{}); err != nil {
				t.Error(err)
			}
			if _, err := plannerv1.NewPlannerServiceClient(session).ListModels(t.Context(), &plannerv1.ListModelsRequest{}); err != nil {
				t.Error(err)
			}
			for range 2 {
				_, err := mcppoolv1.NewMcpPoolServiceClient(session).ListMcpServers(t.Context(), &mcppoolv1.ListMcpServersRequest{})
				if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("the pool: %v, want %q", err, tt.says)
				}
				if tt.code != 0 && status.Code(err) != tt.code {
					t.Errorf("code %v, want %v", status.Code(err), tt.code)
				}
			}
			stream, err := mcppoolv1.NewMcpPoolServiceClient(session).CallTool(t.Context(), &mcppoolv1.CallToolRequest{McpId: "x", Name: "y"})
			if err == nil {
				_, err = stream.Recv()
			}
			if unknown := status.Code(err) == codes.Unimplemented; err == nil || unknown != (tt.code != 0) {
				t.Errorf("a stream: %v", err)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Of several replicas of the pool one that answers is enough, and all calls of a session go to the same one.
func TestReplicasOfThePool(t *testing.T) {
	executor, pool, other := clitest.NewExecutor(), clitest.NewPool(t), clitest.NewPool(t)
	one, two := clitest.Serve(t, pool), clitest.Serve(t, other)
	for name, addrs := range map[string]string{"both": one.Addr + "," + two.Addr, "the first is dead": closed(t) + "," + one.Addr, "the last is dead": one.Addr + "," + closed(t)} {
		t.Run(name, func(t *testing.T) {
			cfg := discover.Config{Server: clitest.Serve(t, executor).Addr, Parts: map[string]discover.Part{
				"pawl.mcppool.v1": {Name: "MCP pool", Addr: addrs, Given: true},
			}}
			s := discover.New(cfg)
			defer s.Close()
			id := strings.ReplaceAll(name, " ", "-")
			if _, err := s.Pool.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServerId: id, McpServer: &mcppoolv1.McpServer{
				Transport: &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: "workspace", Root: t.TempDir()}},
			}}); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				if _, err := s.Pool.GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: id}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
