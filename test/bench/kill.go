package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// killed is how many tasks are in flight when the executor is killed.
const killed = 100

// aftermath is what a kill led to.
type aftermath struct {
	floor, took        time.Duration // of the steps that were left, and from the kill to the last end
	ended              int           // tasks that succeeded by themselves
	asked              int           // tasks that ask a person about the outcome of a call
	failed             int           // tasks that ended otherwise
	reason             string        // of one of those
	calls, twice, lost int           // calls that the tool counted, of them those it had seen before; steps of succeeded tasks it never saw
}

// mortal is a system that is killed in the middle of its work.
type mortal struct {
	what   string
	create func(i int) (id string)
	victim func() *process
	takeUp func(context.Context)
	// settle waits until a task has ended or asks a person, and returns its last event; nil: it succeeded.
	settle func(ctx context.Context, id string) (*executorv1.ExecutorEvent, error)
}

// killing kills the executor, and the peer, in the middle of 100 tasks.
func (b *bench) killing(ctx context.Context, d *document) {
	d.text("100 tasks of ten steps of %v each; the executor (Restate's server) is killed (SIGKILL) when two fifths of the steps were called, and started "+
		"again at once; planner, pool and tool (its worker) live on. The floor is what the steps that were left take. A step that the tool saw twice was repeated unasked. "+
		"A call of a writing tool whose outcome is unknown is a person's to decide: such tasks wait.", workTime)
	var rows [][]string
	reason := ""
	for i, start := range []func(effects string) mortal{
		func(effects string) mortal { return b.mortalPawl(ctx, "Pawl, reading tool", "t/lookup", effects) },
		func(effects string) mortal { return b.mortalPawl(ctx, "Pawl, writing tool", "t/work", effects) },
		func(effects string) mortal { return b.mortalPeer(ctx, effects) },
	} {
		if i == 2 && !b.peer {
			break
		}
		var m mortal
		var a aftermath
		err := b.try(func() {
			b.scope(func() {
				effects := filepath.Join(b.work, fmt.Sprintf("killed-%d.txt", i))
				m = start(effects)
				a = m.kill(ctx, effects)
			})
		})
		if err != nil && i == 2 {
			b.logf("Restate: %v", err)
			break
		}
		check(err)
		if a.failed > 0 {
			reason = fmt.Sprintf("%s: %d tasks failed, one of them by: %s", m.what, a.failed, a.reason)
		}
		row := []string{m.what, figure(a.floor.Seconds()), figure(a.took.Seconds())}
		for _, n := range []int{a.ended, a.asked, a.failed, a.calls, a.twice, a.lost} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	d.table([]string{"system", "floor, s", "all settled after, s", "succeeded", "ask a person", "failed", "calls", "steps called twice", "steps never called"}, rows)
	if reason != "" {
		d.text("%s", reason)
	}
	d.text("Target: all complete within 1 s of the floor, and no side effect twice unasked.")
}

// kill kills a system in the middle of its tasks, starts it again, and waits until all have settled.
func (m mortal) kill(ctx context.Context, effects string) (a aftermath) {
	var ids []string
	for i := range killed {
		ids = append(ids, m.create(i))
	}
	begun := countTo(ctx, effects, killed*stepsPerTask*2/5)
	m.victim().kill()
	at := time.Now()
	a.floor = time.Duration(stepsPerTask-begun/killed) * workTime
	m.takeUp(ctx)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards a and failed
	var failed error
	for _, id := range ids {
		wg.Go(func() {
			last, err := m.settle(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err // one says enough
				return
			}
			a.add(last)
		})
	}
	wg.Wait()
	check(failed)
	a.took = time.Since(at)
	check(a.count(effects))
	return a
}

// add counts a task by its last event.
func (a *aftermath) add(last *executorv1.ExecutorEvent) {
	switch {
	case last == nil, last.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS:
		a.ended++
	case last.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP:
		a.asked++
	default:
		a.failed++
		failure := last.GetFlowFailed().GetError()
		a.reason = fmt.Sprintf("%s (%v)", failure.GetErrMsg(), failure.GetReason())
	}
}

// mortalPawl runs tasks whose steps name themselves.
func (b *bench) mortalPawl(ctx context.Context, what, tool, effects string) mortal {
	p := b.startPawl(ctx, fourProcesses)
	return mortal{what: what, victim: func() *process { return p.executor }, takeUp: p.takeUp, settle: p.lastOf, create: func(i int) string {
		steps := "steps:\n"
		for n := range stepsPerTask {
			steps += fmt.Sprintf("  - {tool: %s, input: {path: %q, line: task-%d-step-%d}}\n", tool, effects, i, n)
		}
		return must(p.tasks.CreateTask(ctx, request(steps))).GetId()
	}}
}

func (b *bench) mortalPeer(ctx context.Context, effects string) mortal {
	r := b.startRestate(ctx)
	return mortal{
		what: peerTS + ", step with an effect", victim: func() *process { return r.server }, takeUp: r.takeUp,
		create: func(i int) string { return r.send(ctx, effects, i) },
		settle: func(ctx context.Context, id string) (*executorv1.ExecutorEvent, error) {
			_, err := r.attach(ctx, id)
			return nil, err
		},
	}
}

// countTo waits until a file has so many lines, and returns how many it has.
func countTo(ctx context.Context, path string, lines int) int {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		raw, err := os.ReadFile(path)
		if n := bytes.Count(raw, []byte("\n")); n >= lines {
			return n
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			check(fmt.Errorf("%d steps were not called: %w", lines, errors.Join(ctx.Err(), err)))
		}
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

// count compares what the tool wrote with what tasks say.
func (a *aftermath) count(effects string) error {
	raw, err := os.ReadFile(effects)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		a.calls++
		if seen[line] {
			a.twice++
		}
		seen[line] = true
	}
	if a.ended == killed {
		a.lost = killed*stepsPerTask - len(seen)
	}
	return nil
}
