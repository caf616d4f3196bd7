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

// killing kills the executor, and the peer, in the middle of 100 tasks.
func (b *bench) killing(ctx context.Context, d *document) error {
	d.text("100 tasks of ten steps of %v each; the executor (Restate's server) is killed (SIGKILL) when two fifths of the steps were called, and started "+
		"again at once; planner, pool and tool (its worker) live on. The floor is what the steps that were left take. A step that the tool saw twice was repeated unasked. "+
		"A call of a writing tool whose outcome nobody knows is a person's to decide: such tasks wait.", workTime)
	rows := [][]string{}
	reason := ""
	add := func(what string, a aftermath) {
		if a.failed > 0 {
			reason = fmt.Sprintf("%s: %d tasks failed, one of them by: %s", what, a.failed, a.reason)
		}
		row := []string{what, figure(a.floor.Seconds()), figure(a.took.Seconds())}
		for _, n := range []int{a.ended, a.asked, a.failed, a.calls, a.twice, a.lost} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	for _, t := range []struct{ tool, what string }{{"t/lookup", "Pawl, reading tool"}, {"t/work", "Pawl, writing tool"}} {
		a, err := b.killOnce(ctx, t.tool)
		if err != nil {
			return err
		}
		add(t.what, a)
	}
	if b.peer {
		if a, err := b.killPeer(ctx); err == nil {
			add(peerTS+", step with an effect", a)
		} else {
			b.logf("Restate: %v", err)
		}
	}
	d.table([]string{"system", "floor, s", "all settled after, s", "succeeded", "ask a person", "failed", "calls", "steps called twice", "steps never called"}, rows)
	if reason != "" {
		d.text("%s", reason)
	}
	d.text("Target: all complete within 1 s of the floor, and no side effect twice unasked.")
	return nil
}

// killOnce does it with one tool.
func (b *bench) killOnce(ctx context.Context, tool string) (a aftermath, err error) {
	p, err := b.startFour(ctx)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	effects := filepath.Join(b.work, strings.ReplaceAll(tool, "/", "-")+".txt")
	ids, err := p.createAll(ctx, tool, effects)
	if err != nil {
		return a, err
	}
	begun, err := countTo(ctx, effects, killed*stepsPerTask*2/5)
	if err != nil {
		return a, err
	}
	p.executor.kill()
	at := time.Now()
	p.dropExecutor()
	a.floor = time.Duration(stepsPerTask-begun/killed) * workTime
	if err := p.takeUp(ctx); err != nil {
		return a, err
	}
	if err := p.settle(ctx, ids, &a); err != nil {
		return a, err
	}
	a.took = time.Since(at)
	return a, a.count(effects)
}

// createAll creates tasks whose steps name themselves.
func (p *pawl) createAll(ctx context.Context, tool, effects string) ([]string, error) {
	var ids []string
	for i := range killed {
		steps := "steps:\n"
		for n := range stepsPerTask {
			steps += fmt.Sprintf("  - {tool: %s, input: {path: %q, line: task-%d-step-%d}}\n", tool, effects, i, n)
		}
		task, err := p.tasks.CreateTask(ctx, request(steps))
		if err != nil {
			return nil, err
		}
		ids = append(ids, task.GetId())
	}
	return ids, nil
}

// countTo waits until a file has so many lines, and returns how many it has.
func countTo(ctx context.Context, path string, lines int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		raw, err := os.ReadFile(path)
		if n := bytes.Count(raw, []byte("\n")); n >= lines {
			return n, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("%d steps were not called: %w", lines, errors.Join(ctx.Err(), err))
		}
	}
}

// settle waits until each task has ended or asks a person.
func (p *pawl) settle(ctx context.Context, ids []string, a *aftermath) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards a and err
	var err error
	for _, id := range ids {
		wg.Go(func() {
			last, failed := p.lastOf(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failed != nil:
				err = failed // one says enough
			case last.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS:
				a.ended++
			case last.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP:
				a.asked++
			default:
				a.failed++
				failure := last.GetFlowFailed().GetError()
				a.reason = fmt.Sprintf("%s (%v)", failure.GetErrMsg(), failure.GetReason())
			}
		})
	}
	wg.Wait()
	return err
}

// lastOf watches a task until it has ended or waits, and returns its last event.
func (p *pawl) lastOf(ctx context.Context, id string) (last *executorv1.ExecutorEvent, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.tasks.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: id}, grpc.WaitForReady(true))
	for err == nil {
		var e *executorv1.ExecutorEvent
		if e, err = stream.Recv(); err != nil {
			break
		}
		if last = e; e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP {
			return last, nil
		}
	}
	return last, ignoreEnd(err)
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
