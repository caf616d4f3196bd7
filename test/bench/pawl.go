package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// stepsPerTask is the number of tool calls of a usual measured task.
const stepsPerTask = 10

// layout is a way to run Pawl.
type layout struct {
	name    string
	process string   // name of the process that keeps the journal
	program string   // the program of that process
	command []string // the first arguments of that program
	split   bool     // planner and pool are separate processes
	tool    string   // the tool that the tasks call
	args    []string // further arguments of that program
	data    string   // its data folder; "" for a new one
	protection
}

// The layouts that are measured.
var (
	layouts       = []layout{fourProcesses, oneProcess, inProcess}
	fourProcesses = layout{name: "Pawl, four processes, stdio tool", process: "executor", program: "executor-svc", split: true, tool: "t/echo"}
	oneProcess    = layout{name: "Pawl, one process, stdio tool", process: "pawl", program: "pawl", command: []string{"up"}, tool: "t/echo"}
	inProcess     = layout{name: "One process, in-process tool", process: "pawl", program: "inprocess", tool: "inprocess/echo"}
)

// pawl is a running Pawl.
type pawl struct {
	layout
	// executor is the process that keeps the journal; restart starts it.
	executor  *process
	restart   func(context.Context)
	processes []*process
	journal   string
	tasks     executorv1.ExecutorServiceClient
}

// startPawl starts Pawl in a layout until the measurement ends. The pool starts the stdio tool.
func (b *bench) startPawl(ctx context.Context, l layout) *pawl {
	addrs, data, n := freeAddrs(ctx, 3), l.data, b.protect(ctx, l.protection)
	if data == "" {
		data = b.folder()
	}
	addr, planner, pool := addrs[0], addrs[1], addrs[2]
	p := &pawl{layout: l, journal: filepath.Join(data, "journal.db")}
	// Raise the limits, so that only the machine limits the tasks.
	args := append(slices.Clone(l.command), "--data", data, "--max-running", "256", "--max-requests", "0", "--max-steps", "1000")
	switch {
	case l.split:
		p.processes = []*process{
			b.serve(ctx, "planner", planner, n, b.program("planner-svc"), n.of("planner", false)...),
			b.serve(ctx, "pool", pool, n, b.program("mcppool-svc"), append(n.of("pool", true), "--mcp-config", b.mcpConfig(stdioTool()), "--data", data+"-pool")...),
		}
		args = append(append(args, n.of("executor", true)...), "--planner", n.address(planner), "--pool", n.address(pool))
	case strings.HasPrefix(l.tool, "t/"):
		args = append(args, "--http", "none", "--mcp-config", b.mcpConfig(stdioTool()), "--no-workspace")
	}
	args = append(args, l.args...)
	p.restart = func(ctx context.Context) {
		p.executor = b.serve(ctx, l.process, addr, n, b.program(l.program), args...)
	}
	p.restart(ctx)
	p.processes = append(p.processes, p.executor)
	conn := must(n.client().Dial(addr, n.token))
	b.atEnd(conn.Close)
	p.tasks = executorv1.NewExecutorServiceClient(conn)
	return p
}

// equalSteps returns the request for a task of n equal steps. input is a YAML mapping without its braces.
func equalSteps(n int, tool, input string) *executorv1.CreateTaskRequest {
	return request("steps:\n" + strings.Repeat(fmt.Sprintf("  - {tool: %s, input: {%s}}\n", tool, input), n))
}

// echo returns the request for the measured task.
func (l layout) echo() *executorv1.CreateTaskRequest {
	return equalSteps(stepsPerTask, l.tool, "text: hello")
}

func request(playbook string) *executorv1.CreateTaskRequest {
	yes, mcp := true, "t"
	if strings.Contains(playbook, "inprocess/") {
		mcp = "inprocess"
	}
	return &executorv1.CreateTaskRequest{AutoExecute: &yes, Playbook: playbook, McpIds: []string{mcp}}
}

// follow runs a task and passes its events to each, until each returns true or the stream ends. A task that fails or is cancelled is an error.
func (p *pawl) follow(ctx context.Context, req *executorv1.RunTaskRequest, each func(*executorv1.ExecutorEvent) (done bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.tasks.RunTask(ctx, req)
	for stopped := false; err == nil; {
		var e *executorv1.ExecutorEvent
		if e, err = stream.Recv(); err != nil {
			if stopped && errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("a task's stream: %w", err)
		}
		switch e.GetType() {
		case executorv1.EventType_EVENT_TYPE_FLOW_FAILED, executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
			return fmt.Errorf("task %s: %v", e.GetTaskId(), e)
		case executorv1.EventType_EVENT_TYPE_FLOW_STOP, executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS:
			stopped = true
		}
		if each(e) {
			return nil
		}
	}
	return err
}

// run runs a task to its success, and checks that each of its steps had an output.
func (p *pawl) run(ctx context.Context, steps int, req *executorv1.CreateTaskRequest, each func(*executorv1.ExecutorEvent)) error {
	outputs, succeeded := 0, false
	err := p.follow(ctx, &executorv1.RunTaskRequest{Task: req}, func(e *executorv1.ExecutorEvent) bool {
		if each != nil {
			each(e)
		}
		if e.GetType() == executorv1.EventType_EVENT_TYPE_STEP_OUTPUT {
			outputs++
		}
		succeeded = e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS
		return succeeded || e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP
	})
	if err == nil && (!succeeded || outputs != steps) {
		err = fmt.Errorf("a task stopped with %d outputs", outputs)
	}
	return err
}

// contender returns Pawl as a contender that runs a task of so many steps.
func (p *pawl) contender(steps int, req *executorv1.CreateTaskRequest) *contender {
	return &contender{name: p.name, processes: p.processes, journal: p.journal, steps: steps, run: func(ctx context.Context) error { return p.run(ctx, steps, req, nil) }}
}
