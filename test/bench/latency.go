package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// watching measures the time from an event to its receipt, under load.
func (b *bench) watching(ctx context.Context, d *document) {
	p := b.startPawl(ctx, fourProcesses)
	paced := equalSteps(stepsPerTask, "t/lookup", fmt.Sprintf("path: %q, line: x", filepath.Join(b.work, "watched.txt")))
	var rows [][]string
	for _, w := range []struct {
		what  string
		level int // the number of tasks at once
		req   *executorv1.CreateTaskRequest
	}{
		{"1", 1, p.echo()},
		{fmt.Sprintf("32, steps of %v: the machine is not busy", workTime), 32, paced},
		{"32, as fast as it goes", 32, p.echo()},
		{"128, as fast as it goes", 128, p.echo()},
	} {
		var mu sync.Mutex // guards late
		var late []time.Duration
		c := p.contender(stepsPerTask, w.req)
		c.run = func(ctx context.Context) error {
			var mine []time.Duration
			err := p.run(ctx, stepsPerTask, w.req, func(e *executorv1.ExecutorEvent) { mine = append(mine, time.Since(e.GetTime().AsTime())) })
			mu.Lock()
			defer mu.Unlock()
			late = append(late, mine...)
			return err
		}
		c.load(ctx, w.level, max(b.each, 2*time.Second))
		p50, p99 := quantiles(late)
		rows = append(rows, []string{w.what, figure(p50), figure(p99), fmt.Sprint(len(late))})
	}
	d.text("From the time of an event to its receipt by the caller that created the task, in another process, over all events of tasks with ten steps; " +
		"the time is taken before the commit, so the commit is part of it. Target: p99 ≤ 5 ms.")
	d.table([]string{"tasks at once", "p50, ms", "p99, ms", "events"}, rows)
}

// approving measures the time from an approval until its step has begun, and until the outcome is durable.
func (b *bench) approving(ctx context.Context, d *document) {
	p := b.startPawl(ctx, fourProcesses)
	req := equalSteps(stepsPerTask, "t/append", fmt.Sprintf("path: %q, line: x", filepath.Join(b.work, "approved.txt")))
	var started, done []time.Duration
	for range max(b.scaled(50), 10) {
		s, o, err := p.approveAll(ctx, req)
		check(err)
		started, done = append(started, s...), append(done, o...)
	}
	s50, s99 := quantiles(started)
	o50, o99 := quantiles(done)
	d.text("One task at a time, each of its ten writing steps approved as soon as it waits: from the request (ResumeTask) to the receipt of the event.")
	d.table([]string{"until", "p50, ms", "p99, ms", "target, p50"}, [][]string{
		{"the approved step is durably begun (STEP_INPUT)", figure(s50), figure(s99), "≤ 2"},
		{"its outcome is durable (STEP_OUTPUT)", figure(o50), figure(o99), ""},
	})
}

// approveAll runs a task and approves each of its steps. It returns the times from each approval to STEP_INPUT and to STEP_OUTPUT.
func (p *pawl) approveAll(ctx context.Context, req *executorv1.CreateTaskRequest) (started, done []time.Duration, err error) {
	answers, ctx := errgroup.WithContext(ctx)
	var waitID string
	var asked time.Time
	err = p.follow(ctx, &executorv1.RunTaskRequest{Task: req, Follow: true}, func(e *executorv1.ExecutorEvent) bool {
		switch e.GetType() {
		case executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START:
			waitID = e.GetWaitId()
		case executorv1.EventType_EVENT_TYPE_FLOW_STOP:
			asked = time.Now()
			answer := &executorv1.ResumeTaskRequest{Id: e.GetTaskId(), WaitId: waitID, Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}}
			answers.Go(func() error { // concurrently, because the next event may arrive before ResumeTask returns
				_, err := p.tasks.ResumeTask(ctx, answer)
				return err
			})
		case executorv1.EventType_EVENT_TYPE_STEP_INPUT:
			started = append(started, time.Since(asked))
		case executorv1.EventType_EVENT_TYPE_STEP_OUTPUT:
			done = append(done, time.Since(asked))
		}
		return e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS
	})
	return started, done, errors.Join(answers.Wait(), err)
}

// waiting measures the executor's memory for tasks that wait for a person.
func (b *bench) waiting(ctx context.Context, d *document) {
	n := b.scaled(10_000)
	p := b.startPawl(ctx, fourProcesses)
	req := equalSteps(1, "t/append", fmt.Sprintf("path: %q, line: x", filepath.Join(b.work, "effects.txt")))
	// The memory that a process needs for its first tasks is not a cost of waiting.
	p.leaveWaiting(ctx, req, n/10)
	before, file := settled(ctx, p.executor.pid), readMeta(p.journal)
	began := time.Now()
	p.leaveWaiting(ctx, req, n)
	took := time.Since(began)
	after, grown := settled(ctx, p.executor.pid), readMeta(p.journal)
	check(p.executor.stop())
	p.restart(ctx)
	d.text("%d tasks with a writing step, each stopped for an approval. Memory is anonymous memory of the executor, "+
		"the lowest within two seconds after the last task; garbage that was not collected yet is in it.", n)
	d.table([]string{"what", "measured", "target at 10,000"}, [][]string{
		{"memory before, MB", figure(before), ""},
		{"memory that they add, MB", figure(after - before), "< 50"},
		{"per waiting task, KB", figure((after - before) * 1024 / float64(n)), ""},
		{"memory after a restart with all of them waiting, MB", figure(settled(ctx, p.executor.pid)), ""},
		{"bytes of the journal per waiting task", figure(float64(grown.used-file.used) / float64(n)), ""},
		{"created and waiting, tasks per second", figure(float64(n) / took.Seconds()), ""},
	})
}

// leaveWaiting creates n tasks and returns once all of them wait for an approval.
func (p *pawl) leaveWaiting(ctx context.Context, req *executorv1.CreateTaskRequest, n int) {
	times(ctx, n, 32, func(ctx context.Context) error {
		waits := false
		err := p.follow(ctx, &executorv1.RunTaskRequest{Task: req}, func(e *executorv1.ExecutorEvent) bool {
			waits = waits || e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP
			return false // the stream ends by itself
		})
		if err == nil && !waits {
			err = fmt.Errorf("a task does not wait for an approval")
		}
		return err
	})
}

// settled returns the lowest anonymous memory of a process within two seconds, in MB.
func settled(ctx context.Context, pid int) float64 {
	lowest := anonymousMB(pid)
	for range 20 {
		wait(ctx, 100*time.Millisecond)
		lowest = min(lowest, anonymousMB(pid))
	}
	return lowest
}
