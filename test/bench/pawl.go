package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/serve"
)

// stepsPerTask is how many tool calls a measured task makes.
const stepsPerTask = 10

// pawl is a running Pawl, in four processes or in one.
type pawl struct {
	b         *bench
	processes []*process
	// executor is the one of processes that keeps the journal, startExecutor how it was started.
	executor      *process
	startExecutor func(context.Context) (*process, error)
	addr          string
	journal       string
	conn          *grpc.ClientConn
	tasks         executorv1.ExecutorServiceClient
}

// startFour starts executor, planner and pool as processes; the fourth is the tool, which the pool starts.
func (b *bench) startFour(ctx context.Context) (*pawl, error) {
	config, err := b.toolConfig()
	if err != nil {
		return nil, err
	}
	addrs, err := freeAddrs(ctx, 3)
	if err != nil {
		return nil, err
	}
	limits, err := b.limits(ctx, b.programs.executor)
	if err != nil {
		return nil, err
	}
	data, err := b.folder()
	if err != nil {
		return nil, err
	}
	planner, pool := addrs[1], addrs[2]
	p := &pawl{b: b, addr: addrs[0], journal: filepath.Join(data, "journal.db")}
	args := append([]string{"--grpc", p.addr, "--data", data, "--planner", planner, "--pool", pool}, limits...)
	p.startExecutor = func(context.Context) (*process, error) {
		return b.start("executor", nil, b.programs.executor, args...)
	}
	return p, p.begin(ctx, map[string]func() (*process, error){
		planner: func() (*process, error) {
			return b.start("planner", nil, b.programs.planner, "--grpc", planner)
		},
		pool: func() (*process, error) {
			return b.start("pool", nil, b.programs.pool, "--grpc", pool, "--mcp-config", config, "--data", data+"-pool")
		},
	})
}

// startOne starts everything in one process, beside the stdio tool.
func (b *bench) startOne(ctx context.Context) (*pawl, error) {
	config, err := b.toolConfig()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	limits, err := b.limits(ctx, b.programs.pawl, "up")
	if err != nil {
		return nil, err
	}
	data, err := b.folder()
	if err != nil {
		return nil, err
	}
	p := &pawl{b: b, addr: addr, journal: filepath.Join(data, "journal.db")}
	args := append([]string{"up", "--grpc", addr, "--http", "none", "--data", data, "--mcp-config", config, "--no-workspace"}, limits...)
	p.startExecutor = func(context.Context) (*process, error) {
		return b.start("pawl", nil, b.programs.pawl, args...)
	}
	return p, p.begin(ctx, nil)
}

// startInProcess starts everything in one process, the tool included: program inprocess.
func (b *bench) startInProcess(ctx context.Context) (*pawl, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	limits, err := b.limits(ctx, b.programs.inProcess)
	if err != nil {
		return nil, err
	}
	data, err := b.folder()
	if err != nil {
		return nil, err
	}
	p := &pawl{b: b, addr: addr, journal: filepath.Join(data, "journal.db")}
	args := append([]string{"--grpc", addr, "--data", data}, limits...)
	p.startExecutor = func(context.Context) (*process, error) {
		return b.start("pawl", nil, b.programs.inProcess, args...)
	}
	return p, p.begin(ctx, nil)
}

// begin starts what the executor needs, by address, and the executor, and waits until all serve.
func (p *pawl) begin(ctx context.Context, others map[string]func() (*process, error)) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	for addr, start := range others {
		proc, err := start()
		if err != nil {
			return err
		}
		p.processes = append(p.processes, proc)
		if err := proc.await(ctx, func(ctx context.Context) bool { return serving(ctx, addr) }); err != nil {
			return err
		}
	}
	if err := p.takeUp(ctx); err != nil {
		return err
	}
	return p.dial()
}

// dial makes the connection that tasks are created over.
func (p *pawl) dial() (err error) {
	if p.conn, err = serve.Dial(p.addr, ""); err != nil {
		return err
	}
	p.tasks = executorv1.NewExecutorServiceClient(p.conn)
	return nil
}

// takeUp starts the executor and waits until it serves.
func (p *pawl) takeUp(ctx context.Context) (err error) {
	if p.executor, err = p.startExecutor(ctx); err != nil {
		return err
	}
	p.processes = append(p.processes, p.executor)
	return p.executor.await(ctx, func(ctx context.Context) bool { return serving(ctx, p.addr) })
}

// stop ends everything, the executor first.
func (p *pawl) stop() error {
	var errs []error
	if p.conn != nil {
		errs = append(errs, p.conn.Close())
	}
	for i := len(p.processes) - 1; i >= 0; i-- {
		errs = append(errs, p.processes[i].stop())
	}
	return errors.Join(errs...)
}

// dropExecutor forgets the executor's process, which has ended.
func (p *pawl) dropExecutor() { p.processes = p.processes[:len(p.processes)-1] }

// playbook is a task of n equal steps.
func playbook(n int, tool, input string) string {
	return "steps:\n" + strings.Repeat(fmt.Sprintf("  - {tool: %s, input: {%s}}\n", tool, input), n)
}

// echo and echoInProcess are the tasks that are measured: a tool over stdio, and the same in Pawl's process.
func echo() *executorv1.CreateTaskRequest {
	return request(playbook(stepsPerTask, "t/echo", "text: hello"))
}

func echoInProcess() *executorv1.CreateTaskRequest {
	return request(playbook(stepsPerTask, "inprocess/echo", "text: hello"))
}

func request(playbook string) *executorv1.CreateTaskRequest {
	yes := true
	mcp := "t"
	if strings.Contains(playbook, "inprocess/") {
		mcp = "inprocess"
	}
	return &executorv1.CreateTaskRequest{AutoExecute: &yes, Playbook: playbook, McpIds: []string{mcp}}
}

// run runs a task to its success, and checks that each step was seen.
func (p *pawl) run(ctx context.Context, req *executorv1.CreateTaskRequest, each func(*executorv1.ExecutorEvent)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.tasks.RunTask(ctx, &executorv1.RunTaskRequest{Task: req})
	if err != nil {
		return err
	}
	outputs := 0
	for {
		e, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("a task's stream, after %d outputs: %w", outputs, err)
		}
		if each != nil {
			each(e)
		}
		switch e.GetType() {
		case executorv1.EventType_EVENT_TYPE_STEP_OUTPUT:
			outputs++
		case executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS:
			if outputs != stepsPerTask {
				return fmt.Errorf("task %s succeeded with %d outputs", e.GetTaskId(), outputs)
			}
			return nil
		case executorv1.EventType_EVENT_TYPE_FLOW_FAILED, executorv1.EventType_EVENT_TYPE_FLOW_CANCEL, executorv1.EventType_EVENT_TYPE_FLOW_STOP:
			return fmt.Errorf("task %s: %v", e.GetTaskId(), e)
		}
	}
}

// contender is a system as part suite measures it.
func (p *pawl) contender(name string, req *executorv1.CreateTaskRequest) *contender {
	return &contender{name: name, processes: p.processes, toolOf: p.processes, journal: p.journal,
		run: func(ctx context.Context) error { return p.run(ctx, req, nil) }}
}
