package runner

import (
	"context"
	"log/slog"
	"slices"
	"strings"
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

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// servers is a pool whose servers take a given time to list one tool each, or to fail if they are broken.
type servers struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	takes  map[string]time.Duration
	broken []string
}

func (p *servers) ListTools(ctx context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	id := req.GetMcpId()
	select {
	case <-time.After(p.takes[id]):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if slices.Contains(p.broken, id) {
		return nil, errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, "%s does not start", id)
	}
	return &mcppoolv1.ListToolsResponse{PoolId: "pool", Tools: []*commonv1.Tool{{Id: id + "/read", McpId: id, Name: "read"}}}, nil
}

// chooser plans the first of the wanted tools that a request has. After a step, or if the request has none of them, it plans FINAL.
type chooser struct {
	plannerv1.UnimplementedPlannerServiceServer
	wants []string
	told  [][]string // the tools of each request
	// insists makes every plan the first wanted tool, also after a step and if the request does not have it.
	insists bool
}

func (p *chooser) StreamPlanSteps(req *plannerv1.StreamPlanStepsRequest, stream grpc.ServerStreamingServer[plannerv1.StreamPlanStepsResponse]) error {
	var ids []string
	for _, t := range req.GetContext().GetTools() {
		ids = append(ids, t.GetId())
	}
	p.told = append(p.told, ids)
	step := &plannerv1.PlannedStep{ToolId: flow.Final}
	for _, want := range p.wants {
		if p.insists || len(req.GetContext().GetHistory()) == 0 && slices.Contains(ids, want) {
			step = &plannerv1.PlannedStep{ToolId: want, InputJson: "{}"}
			break
		}
	}
	return stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_Plan{Plan: &plannerv1.PlanStepsResponse{
		Steps: []*plannerv1.PlannedStep{step}, Usage: &commonv1.Usage{ModelCalls: 1},
	}}})
}

func newSession(pool *servers, planner *chooser, ids ...string) *Session {
	conn := inproc.New(nil, nil)
	mcppoolv1.RegisterMcpPoolServiceServer(conn, pool)
	plannerv1.RegisterPlannerServiceServer(conn, planner)
	r := New(Config{}, plannerv1.NewPlannerServiceClient(conn), mcppoolv1.NewMcpPoolServiceClient(conn), slog.New(slog.DiscardHandler))
	return r.Session("task", 1, &storagev1.TaskHead{UserSub: "u", McpIds: ids}, Memory{})
}

func begun(t *testing.T, s *Session) flow.Begun {
	t.Helper()
	var got flow.Begun
	s.plan(&plannerv1.TaskContext{Goal: "g"}, 0, true)(t.Context(), func(in flow.Input) { got, _ = in.(flow.Begun) })
	return got
}

func skipped(t *storagev1.ToolsLoaded) (ids []string) {
	for _, s := range t.GetSkipped() {
		ids = append(ids, s.GetMcpId())
	}
	return ids
}

// A2: servers that hang delay a task that can do without them only for a moment, however many they are, and the event log names them.
func TestSlowServersDelayBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &servers{takes: map[string]time.Duration{"fast": time.Second}}
		ids := []string{"fast"}
		for _, c := range "abcdefgh" {
			pool.takes[string(c)] = 40 * time.Second
			ids = slices.Insert(ids, 0, string(c))
		}
		ids = append(ids, "last") // listed after all that hang
		s := newSession(pool, &chooser{wants: []string{"fast/read"}}, ids...)
		began := time.Now()
		got := begun(t, s)
		if took := time.Since(began); took > 2*toolcall.SlowAfter {
			t.Errorf("it took %s", took)
		}
		if got.Plan.Step.ToolID != "fast/read" || got.Tools.GetToolCount() != 2 || len(got.Tools.GetSkipped()) != 8 {
			t.Errorf("begun with %v and %v", got.Plan, got.Tools)
		}
		if m := got.Tools.GetSkipped()[0].GetMessage(); !strings.Contains(m, "adds them when they arrive") {
			t.Errorf("it says %q", m)
		}
		<-time.After(time.Minute)
		if tools, err := s.toolset(t.Context()); err != nil || tools.loaded.GetToolCount() != 10 || len(tools.late) != 0 {
			t.Errorf("later there are %v, %v", tools, err)
		}
	})
}

// A server that hangs delays one task and not those after it, which add its tools when it answers. Once it has answered in time, tasks wait
// for it again.
func TestAServerThatHangsDelaysOneTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &servers{takes: map[string]time.Duration{"fast": 0, "hung": 40 * time.Second}}
		first := newSession(pool, &chooser{}, "fast", "hung")
		next := func() (*Session, time.Duration, int) {
			s := first.r.Session("task", 1, first.head, Memory{})
			began := time.Now()
			tools, err := s.toolset(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s, time.Since(began), int(tools.loaded.GetToolCount())
		}
		if _, took, n := next(); took != toolcall.SlowAfter || n != 1 {
			t.Errorf("the first task waits for %s and has %d tools", took, n)
		}
		s, took, n := next()
		if took > toolcall.SuspectPatience || n != 1 {
			t.Errorf("the second task waits for %s and has %d tools", took, n)
		}
		<-time.After(time.Minute)
		if tools, err := s.toolset(t.Context()); err != nil || tools.loaded.GetToolCount() != 2 {
			t.Errorf("once it has answered there are %v, %v", tools, err)
		}
		pool.takes["hung"] = time.Second
		if _, took, _ := next(); took > toolcall.SuspectPatience {
			t.Errorf("a task after it answers waits for %s", took)
		}
		<-time.After(time.Minute)
		if _, took, n := next(); took != time.Second || n != 2 {
			t.Errorf("once it answers in time, a task waits for %s and has %d tools", took, n)
		}
	})
}

// If no step is possible without the missing tools, the task waits for them, for as long as their server may take.
func TestNeededToolsAreAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		takes   map[string]time.Duration
		broken  []string
		step    string
		plans   int
		most    time.Duration
		without []string
	}{
		"the only server":         {map[string]time.Duration{"b": 20 * time.Second}, nil, "b/read", 1, 20 * time.Second, nil},
		"the needed server":       {map[string]time.Duration{"a": 0, "b": 20 * time.Second}, nil, "b/read", 2, 20 * time.Second, nil},
		"not another slow server": {map[string]time.Duration{"a": 0, "b": 20 * time.Second, "c": 2 * time.Second}, nil, "b/read", 2, 20 * time.Second, nil},
		"beside one that hangs":   {map[string]time.Duration{"a": 30 * time.Second, "b": 8 * time.Second}, nil, "b/read", 1, 8 * time.Second, []string{"a"}},
		"before one that hangs": {
			map[string]time.Duration{"a": 0, "b": 8 * time.Second, "c": 30 * time.Second, "d": 6 * time.Second}, nil, "b/read", 3, 8 * time.Second, []string{"c"},
		},
		"after one that fails":    {map[string]time.Duration{"a": 0, "b": 8 * time.Second, "d": 6 * time.Second}, []string{"d"}, "b/read", 2, 8 * time.Second, []string{"d"}},
		"the needed server fails": {map[string]time.Duration{"a": 0, "b": 20 * time.Second}, []string{"b"}, "", 1, 20 * time.Second, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ids []string
				for id := range c.takes {
					ids = append(ids, id)
				}
				planner := &chooser{wants: []string{"b/read"}}
				s := newSession(&servers{takes: c.takes, broken: c.broken}, planner, ids...)
				began := time.Now()
				got := begun(t, s)
				if took := time.Since(began); took > c.most {
					t.Errorf("it took %s", took)
				}
				step := ""
				if got.Plan.Step != nil {
					step = got.Plan.Step.ToolID
				}
				if step != c.step || len(planner.told) != c.plans || got.Plan.Usage.GetModelCalls() != uint32(c.plans) {
					t.Errorf("planned %q from the tools %v, with usage %v", step, planner.told, got.Plan.Usage)
				}
				if !slices.Equal(skipped(got.Tools), c.without) {
					t.Errorf("left out %v, want %v", got.Tools.GetSkipped(), c.without)
				}
				<-time.After(time.Minute) // for the lists that are still under way
			})
		})
	}
}

// A task that has made a step ends without waiting for a server that hangs.
func TestEndDoesNotWaitForSlowServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(&servers{takes: map[string]time.Duration{"a": 0, "b": time.Minute}}, &chooser{}, "a", "b")
		began := time.Now()
		var got flow.Planned
		c := &plannerv1.TaskContext{Goal: "g", History: []*plannerv1.HistoryEntry{{StepId: "step-1"}}}
		s.plan(c, 0, false)(t.Context(), func(in flow.Input) { got, _ = in.(flow.Planned) })
		if took := time.Since(began); took > toolcall.SlowAfter || got.Step != nil || got.Err != nil {
			t.Errorf("%v after %s", got, took)
		}
		<-time.After(time.Minute) // for the list that is still under way
	})
}

// A task that has made a step waits for the tool that the planner chose if its server is slow. If the server fails, the task's answer says so.
func TestChosenToolOfASlowServerIsAwaited(t *testing.T) {
	for name, broken := range map[string]bool{"it answers": false, "it fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &servers{takes: map[string]time.Duration{"a": 0, "b": 20 * time.Second}}
				if broken {
					pool.broken = []string{"b"}
				}
				s := newSession(pool, &chooser{wants: []string{"b/read"}, insists: true}, "a", "b")
				var got flow.Planned
				c := &plannerv1.TaskContext{Goal: "g", History: []*plannerv1.HistoryEntry{{StepId: "step-1"}}}
				s.plan(c, 0, false)(t.Context(), func(in flow.Input) { got, _ = in.(flow.Planned) })
				if (got.Step == nil) != broken || strings.Contains(got.CutShort, "b/read") != broken {
					t.Errorf("planned %v, cut short: %q", got.Step, got.CutShort)
				}
			})
		})
	}
}

// A step waits for its tool's server, and not for other slow servers.
func TestAToolWaitsForItsOwnServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(&servers{takes: map[string]time.Duration{"a": 0, "b": 8 * time.Second, "c": time.Minute}}, &chooser{}, "a", "b", "c")
		began := time.Now()
		if tools, err := s.toolsetWith(t.Context(), "b/read"); err != nil || tools.find("b/read") == nil || time.Since(began) > 8*time.Second {
			t.Errorf("there are %v, %v after %s", tools, err, time.Since(began))
		}
		<-time.After(time.Minute) // for the list that is still under way
	})
}

// A listing that failed because its context ended, and not because of its server, is repeated.
func TestListsThatWereCutOffAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &servers{takes: map[string]time.Duration{"a": 0, "b": time.Minute}}
		s := newSession(pool, &chooser{}, "a", "b")
		turn, cancel := context.WithCancel(t.Context())
		if tools, err := s.toolset(turn); err != nil || tools.lateFor("b/read") == nil {
			t.Fatal(tools, err)
		}
		cancel()
		synctest.Wait()
		pool.takes["b"] = 0
		if tools, err := s.toolset(t.Context()); err != nil || tools.find("b/read") == nil {
			t.Errorf("there are %v, %v", tools, err)
		}
	})
}
