package executor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/executor"
	"pawl.dev/executor-svc/internal/fake"
)

// BenchmarkExecutor runs 10-step tasks, `at` of them at a time, with planner and pool that answer at once. One operation is one
// task, from its creation to its last event. With `ahead` the planner knows all steps from the beginning, so that each step is
// one commit; else it is asked before each step, and each step is two commits.
func BenchmarkExecutor(b *testing.B) {
	for _, ahead := range []bool{true, false} {
		for _, at := range []int{1, 32, 128} {
			b.Run(fmt.Sprintf("ahead=%v/at-%d", ahead, at), func(b *testing.B) {
				steps := fake.Script("read", "read", "read", "read", "read", "read", "read", "read", "read", "read")
				client := startInProcess(b, &fastPlanner{Planner: steps, ahead: ahead}, executor.Config{MaxRunning: max(30, at)})
				runTasks(b, client, at)
			})
		}
	}
}

// BenchmarkChained runs tasks of 1,000 steps that are planned ahead, with inputs made of the output before and with fixed inputs, in turns.
func BenchmarkChained(b *testing.B) {
	const steps = 1000
	chained, fixed := fake.Script(slices.Repeat([]string{"read"}, steps)...), fake.Script(slices.Repeat([]string{"read"}, steps)...)
	for i, step := range chained.Steps[1:] {
		step.InputJson, step.Unresolved = fmt.Sprintf(`{"text":"${step-%d.message} again"}`, i+1), true
	}
	type cost struct{ wall, cpu time.Duration }
	run := func(client executorv1.ExecutorServiceClient, all *cost) {
		yes, began, cpu := true, time.Now(), cpuTime(b)
		if err := runTask(b.Context(), client, &executorv1.CreateTaskRequest{Goal: "many steps", AutoExecute: &yes}); err != nil {
			b.Fatal(err)
		}
		all.wall, all.cpu = all.wall+time.Since(began), all.cpu+cpuTime(b)-cpu
	}
	cfg := executor.Config{MaxSteps: steps}
	withChained, withFixed := startInProcess(b, &fastPlanner{Planner: chained, ahead: true}, cfg), startInProcess(b, &fastPlanner{Planner: fixed, ahead: true}, cfg)
	var ofChained, ofFixed cost
	for b.Loop() {
		run(withChained, &ofChained)
		run(withFixed, &ofFixed)
	}
	b.ReportMetric(ofFixed.wall.Seconds()/ofChained.wall.Seconds(), "steps/s-ratio")
	b.ReportMetric(ofChained.cpu.Seconds()/ofFixed.cpu.Seconds(), "cpu-ratio")
}

// startInProcess starts an executor with in-process connections to planner and pool.
func startInProcess(b *testing.B, p *fastPlanner, cfg executor.Config) executorv1.ExecutorServiceClient {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	connect := func(register func(grpc.ServiceRegistrar)) *inproc.Conn {
		unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local(), Log: log})
		if err != nil {
			b.Fatal(err)
		}
		conn := inproc.New(unary, stream)
		register(conn)
		return conn
	}
	cfg.DataDir = b.TempDir()
	svc, err := executor.New(b.Context(), cfg, executor.Deps{
		Log:     log,
		Planner: connect(func(r grpc.ServiceRegistrar) { plannerv1.RegisterPlannerServiceServer(r, p) }),
		Pool:    connect(func(r grpc.ServiceRegistrar) { mcppoolv1.RegisterMcpPoolServiceServer(r, newFastPool()) }),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- svc.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ran, svc.Close()); err != nil {
			b.Error(err)
		}
	})
	return executorv1.NewExecutorServiceClient(connect(svc.Register))
}

// fastPlanner is a planner that costs next to nothing, because its time is measured too: it does not record its requests.
type fastPlanner struct {
	*fake.Planner
	ahead bool
}

func (p *fastPlanner) PlanSteps(_ context.Context, req *plannerv1.PlanStepsRequest) (*plannerv1.PlanStepsResponse, error) {
	left := p.Steps[len(req.GetContext().GetHistory()):]
	res := &plannerv1.PlanStepsResponse{FlowName: "ten steps", FlowRisk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "a test"}}
	if !p.ahead {
		left = left[:min(1, len(left))]
	}
	res.Steps = append(res.Steps, left...)
	if p.ahead || len(left) == 0 {
		res.Steps = append(res.Steps, &plannerv1.PlannedStep{ToolId: "FINAL"})
	}
	return res, nil
}

func (p *fastPlanner) StreamPlanSteps(req *plannerv1.StreamPlanStepsRequest, stream grpc.ServerStreamingServer[plannerv1.StreamPlanStepsResponse]) error {
	inproc.Share(stream.Context())
	plan, err := p.PlanSteps(stream.Context(), &plannerv1.PlanStepsRequest{Context: req.GetContext(), Begin: req.GetBegin()})
	if err != nil {
		return err
	}
	return stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_Plan{Plan: plan}})
}

var answered = &plannerv1.GenerateAnswerResponse{Text: "All ten steps are done."}

func (*fastPlanner) GenerateAnswer(_ *plannerv1.GenerateAnswerRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateAnswerResponse]) error {
	inproc.Share(stream.Context())
	return stream.Send(answered)
}

// fastPool is a pool that costs next to nothing: it answers all calls with one result and does not record them.
type fastPool struct {
	*fake.Pool
	tools  *mcppoolv1.ListToolsResponse
	result *mcppoolv1.CallToolsResponse
}

func newFastPool() *fastPool {
	p := fake.NewPool()
	tools, err := p.ListTools(context.Background(), &mcppoolv1.ListToolsRequest{McpId: "t"})
	if err != nil {
		panic(err)
	}
	return &fastPool{Pool: p, tools: tools, result: &mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Call{Call: fake.TextResult("read 1", false)}}}
}

func (p *fastPool) ListTools(context.Context, *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	return p.tools, nil
}

func (p *fastPool) CallTools(stream grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]) error {
	inproc.Share(stream.Context())
	for {
		if _, err := stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := stream.Send(p.result); err != nil {
			return err
		}
	}
}

func (*fastPool) ReleaseSession(context.Context, *mcppoolv1.ReleaseSessionRequest) (*mcppoolv1.ReleaseSessionResponse, error) {
	return &mcppoolv1.ReleaseSessionResponse{}, nil
}

func (*fastPool) AckCall(context.Context, *mcppoolv1.AckCallRequest) (*mcppoolv1.AckCallResponse, error) {
	return &mcppoolv1.AckCallResponse{}, nil
}

func runTasks(b *testing.B, client executorv1.ExecutorServiceClient, at int) {
	b.Helper()
	yes := true
	work := make(chan struct{})
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for range work {
				if err := runTask(b.Context(), client, &executorv1.CreateTaskRequest{Goal: "ten steps", AutoExecute: &yes}); err != nil {
					b.Error(err)
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
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/task")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(10*float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

// cpuTime returns the CPU time that this process has used. Unlike the clock, it leaves out what other processes do meanwhile.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func runTask(ctx context.Context, client executorv1.ExecutorServiceClient, req *executorv1.CreateTaskRequest) error {
	stream, err := client.RunTask(ctx, &executorv1.RunTaskRequest{Task: req})
	if err != nil {
		return err
	}
	for {
		e, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the stream ended before the task")
		case err != nil:
			return err
		case e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS:
			_, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("after the end: %w", err)
		case e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_FAILED:
			return fmt.Errorf("the task failed: %v", e)
		}
	}
}
