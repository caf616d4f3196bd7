package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	// inFlight is how many tasks are in flight when the executor is killed.
	inFlight = 100
	// settleTimeout bounds how long the tasks may take until the kill, and again until all have settled.
	settleTimeout = 60 * time.Second
)

// killResult is the result of a kill.
type killResult struct {
	floor             time.Duration // the shortest time that the remaining steps can take
	took              time.Duration // from the kill until the last task settled
	succeeded, asking int           // tasks that succeeded; tasks that ask a person about the outcome of a call
	failed            int           // tasks that failed or were cancelled
	reason            string        // why one of the failed tasks failed
	calls, repeated   int           // calls that the tool saw, and how many of them were repeated
	never             int           // steps that the tool never saw; counted only if all tasks succeeded
}

// killable is a system that can be killed in the middle of its work.
type killable struct {
	create  func(i int) (id string)
	victim  func() *process
	restart func(context.Context)
	// settle waits until a task has ended or asks a person. It returns the task's last event. The peer has no events: nil means success.
	settle func(ctx context.Context, id string) (*executorv1.ExecutorEvent, error)
}

// killing measures how Pawl and the peer recover from a kill in the middle of 100 tasks.
func (b *bench) killing(ctx context.Context, d *document) {
	d.text("100 tasks of ten steps of %v each; the executor (Restate's server) is killed (SIGKILL) when two fifths of the steps were called, and started "+
		"again at once; planner, pool and tool (its worker) live on. The floor is what the steps that were left take. A step that the tool saw twice was repeated unasked. "+
		"A call of a writing tool whose outcome is unknown is a person's to decide: such tasks wait.", workTime)
	var rows [][]string
	measure := func(what string, start func(effects string) killable) {
		var a killResult
		b.scope(func() {
			effects := filepath.Join(b.work, fmt.Sprintf("killed-%d.txt", len(rows)))
			a = start(effects).kill(ctx, effects)
		})
		if a.failed > 0 {
			d.text("%s: %d tasks failed, one of them by: %s", what, a.failed, a.reason)
		}
		row := []string{what, figure(a.floor.Seconds()), figure(a.took.Seconds())}
		for _, n := range []int{a.succeeded, a.asking, a.failed, a.calls, a.repeated, a.never} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	measure("Pawl, reading tool", func(effects string) killable { return b.killablePawl(ctx, "t/lookup", effects) })
	measure("Pawl, writing tool", func(effects string) killable { return b.killablePawl(ctx, "t/work", effects) })
	if b.peer {
		err := b.try(func() {
			measure(peerTS+", step with an effect", func(effects string) killable { return b.killablePeer(ctx, effects) })
		})
		if err != nil {
			b.logf("Restate: %v", err)
		}
	}
	d.table([]string{"system", "floor, s", "all settled after, s", "succeeded", "ask a person", "failed", "calls", "steps called twice", "steps never called"}, rows)
	d.text("Target: all complete within 1 s of the floor, and no side effect twice unasked.")
}

// kill kills a system in the middle of its tasks, starts it again, and waits until all have settled.
func (m killable) kill(ctx context.Context, effects string) (a killResult) {
	var ids []string
	for i := range inFlight {
		ids = append(ids, m.create(i))
	}
	begun := countTo(ctx, effects, inFlight*stepsPerTask*2/5)
	m.victim().kill()
	at := time.Now()
	a.floor = time.Duration(stepsPerTask-begun/inFlight) * workTime
	m.restart(ctx)
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	last := make([]*executorv1.ExecutorEvent, inFlight)
	work, ctx := errgroup.WithContext(ctx)
	for i, id := range ids {
		work.Go(func() (err error) {
			last[i], err = m.settle(ctx, id)
			return err
		})
	}
	check(work.Wait())
	a.took = time.Since(at)
	for _, e := range last {
		a.add(e)
	}
	a.count(must(os.ReadFile(effects)))
	return a
}

// add counts a task by its last event.
func (a *killResult) add(last *executorv1.ExecutorEvent) {
	switch {
	case last == nil, last.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS:
		a.succeeded++
	case last.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP:
		a.asking++
	default:
		a.failed++
		failure := last.GetFlowFailed().GetError()
		a.reason = fmt.Sprintf("%s (%v)", failure.GetErrMsg(), failure.GetReason())
	}
}

// count compares the lines that the tool wrote with the steps of the tasks.
func (a *killResult) count(effects []byte) {
	seen := map[string]bool{}
	for line := range strings.Lines(string(effects)) {
		a.calls++
		if seen[line] {
			a.repeated++
		}
		seen[line] = true
	}
	if a.succeeded == inFlight {
		a.never = inFlight*stepsPerTask - len(seen)
	}
}

// killablePawl starts Pawl with tasks in which each step writes a line that names it.
func (b *bench) killablePawl(ctx context.Context, tool, effects string) killable {
	p := b.startPawl(ctx, fourProcesses)
	return killable{victim: func() *process { return p.executor }, restart: p.restart, settle: p.lastOf, create: func(i int) string {
		steps := "steps:\n"
		for n := range stepsPerTask {
			steps += fmt.Sprintf("  - {tool: %s, input: {path: %q, line: task-%d-step-%d}}\n", tool, effects, i, n)
		}
		return must(p.tasks.CreateTask(ctx, request(steps))).GetId()
	}}
}

func (b *bench) killablePeer(ctx context.Context, effects string) killable {
	r := b.startRestate(ctx)
	return killable{victim: func() *process { return r.server }, restart: r.restart,
		create: func(i int) string { return r.send(ctx, effects, i) },
		settle: func(ctx context.Context, id string) (*executorv1.ExecutorEvent, error) {
			_, err := r.attach(ctx, id)
			return nil, err
		},
	}
}

// countTo waits until a file has at least that many lines, and returns their number.
func countTo(ctx context.Context, path string, lines int) int {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		raw, err := os.ReadFile(path)
		if n := bytes.Count(raw, []byte("\n")); n >= lines {
			return n
		}
		if ctx.Err() != nil {
			check(fmt.Errorf("fewer than %d steps were called: %w", lines, errors.Join(ctx.Err(), err)))
		}
		wait(ctx, 2*time.Millisecond)
	}
}

// lastOf watches a task until it has ended or waits, and returns its last event.
func (p *pawl) lastOf(ctx context.Context, id string) (last *executorv1.ExecutorEvent, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.tasks.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: id}, grpc.WaitForReady(true))
	for err == nil {
		if last, err = stream.Recv(); err != nil {
			break
		}
		switch last.GetType() {
		case executorv1.EventType_EVENT_TYPE_FLOW_STOP, executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.EventType_EVENT_TYPE_FLOW_FAILED, executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
			return last, nil
		}
	}
	return nil, err
}
