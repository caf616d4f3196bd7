package runner

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// toolsetOf returns the toolset of one server.
func toolsetOf(mcpID string, tools ...*commonv1.Tool) *toolset {
	return &toolset{usable: []*toolcall.List{{ID: mcpID, Catalog: toolcall.NewCatalog("", tools)}}}
}

// keeper is a planner that keeps catalogs, and plans FINAL.
type keeper struct {
	plannerv1.UnimplementedPlannerServiceServer
	takes time.Duration // to plan

	mu   sync.Mutex
	kept map[string]bool // guarded by mu
	sent int             // guarded by mu; requests with tools
}

// restart makes the planner forget all catalogs, and returns how many requests had tools.
func (p *keeper) restart() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.kept, p.sent = map[string]bool{}, 0
	return sent
}

func (p *keeper) StreamPlanSteps(req *plannerv1.StreamPlanStepsRequest, stream grpc.ServerStreamingServer[plannerv1.StreamPlanStepsResponse]) error {
	var lacks []string
	p.mu.Lock()
	for _, c := range req.GetContext().GetCatalogs() {
		switch {
		case len(c.GetTools()) > 0:
			p.kept[c.GetHash()] = true
			p.sent++
		case !p.kept[c.GetHash()]:
			lacks = append(lacks, c.GetHash())
		}
	}
	p.mu.Unlock()
	if len(lacks) > 0 {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING, "send the tools").With("catalogs", strings.Join(lacks, ","))
	}
	<-time.After(p.takes)
	return stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_Plan{Plan: &plannerv1.PlanStepsResponse{
		Steps: []*plannerv1.PlannedStep{{ToolId: flow.Final}},
	}}})
}

// A planner gets the tools of a catalog once, also if many tasks begin together and its answers take long, and again only if it has lost them.
func TestPlannerGetsACatalogOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		planner, conn := &keeper{takes: time.Minute}, inproc.New(nil, nil)
		planner.restart()
		mcppoolv1.RegisterMcpPoolServiceServer(conn, fake.NewPool())
		plannerv1.RegisterPlannerServiceServer(conn, planner)
		r := New(Config{}, plannerv1.NewPlannerServiceClient(conn), mcppoolv1.NewMcpPoolServiceClient(conn), slog.New(slog.DiscardHandler))
		round := func() {
			t.Helper()
			var all sync.WaitGroup
			began := time.Now()
			for range 20 {
				all.Go(func() {
					s := r.Session("task", 1, &storagev1.TaskHead{UserSub: "u", McpIds: []string{"t"}}, Memory{})
					if got := begun(t, s); got.Plan.Err != nil || got.Plan.CutShort != "" || got.Tools.GetToolCount() != 4 {
						t.Errorf("begun with %v", got)
					}
				})
			}
			all.Wait()
			if took := time.Since(began); took > planner.takes+2*time.Second {
				t.Errorf("20 tasks took %s", took)
			}
		}
		round()
		round()
		if sent := planner.restart(); sent != 1 {
			t.Errorf("%d requests had the tools", sent)
		}
		round()
		if sent := planner.restart(); sent != 1 {
			t.Errorf("%d requests had the tools after a restart of the planner", sent)
		}
	})
}

// A task whose context ends does not wait for the tools that another task is sending.
func TestWaitingForACatalogEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s toolcall.Sends
		end, _ := s.Begin([]string{"a", "b"})
		if other, _ := s.Begin([]string{"a"}); other == nil {
			t.Error("different catalogs wait for each other")
		}
		mine, arrived := s.Begin([]string{"a", "b"})
		if mine != nil {
			t.Fatal("two requests send the same catalogs")
		}
		began := time.Now()
		<-arrived
		if took := time.Since(began); took != time.Second {
			t.Errorf("it waited %s for a request that takes long", took)
		}
		end()
		again, _ := s.Begin([]string{"a", "b"})
		if again == nil {
			t.Fatal("the catalogs cannot be sent again")
		}
		end() // has no effect on the later request
		if _, arrived := s.Begin([]string{"a", "b"}); arrived == nil {
			t.Error("the end of an earlier request ended a later one")
		}
		again()
	})
}
