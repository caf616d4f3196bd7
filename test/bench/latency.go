package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// watching measures from an event's time to its receipt, under load.
func (b *bench) watching(ctx context.Context, d *document) (err error) {
	p, err := b.startFour(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	paced := request(playbook(stepsPerTask, "t/lookup", fmt.Sprintf("path: %q, line: x", filepath.Join(b.work, "watched.txt"))))
	var rows [][]string
	for _, w := range []struct {
		what string
		at   int
		req  *executorv1.CreateTaskRequest
	}{
		{"1", 1, echo()},
		{fmt.Sprintf("32, steps of %v: the machine is not busy", workTime), 32, paced},
		{"32, as fast as it goes", 32, echo()},
		{"128, as fast as it goes", 128, echo()},
	} {
		late, err := p.lateness(ctx, w.at, max(b.each, 2*time.Second), w.req)
		if err != nil {
			return err
		}
		p50, p99 := quantiles(late)
		rows = append(rows, []string{w.what, figure(p50), figure(p99), fmt.Sprint(len(late))})
	}
	d.text("From the time of an event to its receipt by the caller that created the task, in another process, over all events of tasks with ten steps; " +
		"where the time is taken before the commit, the commit is part of it. Target: p99 ≤ 5 ms.")
	d.table([]string{"tasks at once", "p50, ms", "p99, ms", "events"}, rows)
	return nil
}

// lateness is how old events are when they are received, under load.
func (p *pawl) lateness(ctx context.Context, at int, each time.Duration, req *executorv1.CreateTaskRequest) ([]time.Duration, error) {
	var mu sync.Mutex // guards late
	var late []time.Duration
	c := p.contender("watchers", req)
	c.run = func(ctx context.Context) error {
		var mine []time.Duration
		err := p.run(ctx, req, func(e *executorv1.ExecutorEvent) { mine = append(mine, time.Since(e.GetTime().AsTime())) })
		mu.Lock()
		defer mu.Unlock()
		late = append(late, mine...)
		return err
	}
	_, err := c.load(ctx, at, each)
	return late, err
}

// approving measures from an approval to what it lets happen.
func (b *bench) approving(ctx context.Context, d *document) (err error) {
	p, err := b.startFour(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	path := filepath.Join(b.work, "approved.txt")
	req := request(playbook(stepsPerTask, "t/append", fmt.Sprintf("path: %q, line: x", path)))
	var started, done []time.Duration
	for range max(b.few(50), 10) {
		s, o, err := p.approveAll(ctx, req)
		if err != nil {
			return err
		}
		started, done = append(started, s...), append(done, o...)
	}
	s50, s99 := quantiles(started)
	o50, o99 := quantiles(done)
	d.text("One task at a time, each of its ten writing steps approved as soon as it waits: from the request (ResumeTask) to the receipt of the event.")
	d.table([]string{"until", "p50, ms", "p99, ms", "target, p50"}, [][]string{
		{"the approved step is durably begun (STEP_INPUT)", figure(s50), figure(s99), "≤ 2"},
		{"its outcome is durable (STEP_OUTPUT)", figure(o50), figure(o99), ""},
	})
	return nil
}

// approveAll runs a task and approves each of its steps.
func (p *pawl) approveAll(ctx context.Context, req *executorv1.CreateTaskRequest) (started, done []time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := p.tasks.RunTask(ctx, &executorv1.RunTaskRequest{Task: req, Follow: true})
	if err != nil {
		return nil, nil, err
	}
	var waitID string
	var asked time.Time
	for {
		e, err := stream.Recv()
		if err != nil {
			return nil, nil, errors.Join(err, context.Cause(ctx))
		}
		switch e.GetType() {
		case executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START:
			waitID = e.GetWaitId()
		case executorv1.EventType_EVENT_TYPE_FLOW_STOP:
			asked = time.Now()
			// Beside the stream: its next event may be here before the answer is.
			go p.approve(ctx, cancel, e.GetTaskId(), waitID)
		case executorv1.EventType_EVENT_TYPE_STEP_INPUT:
			started = append(started, time.Since(asked))
		case executorv1.EventType_EVENT_TYPE_STEP_OUTPUT:
			done = append(done, time.Since(asked))
		case executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS:
			return started, done, nil
		case executorv1.EventType_EVENT_TYPE_FLOW_FAILED, executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
			return nil, nil, fmt.Errorf("task %s: %v", e.GetTaskId(), e)
		}
	}
}

// approve answers a wait; where that is refused, the task's stream ends.
func (p *pawl) approve(ctx context.Context, cancel context.CancelCauseFunc, id, waitID string) {
	_, err := p.tasks.ResumeTask(ctx, &executorv1.ResumeTaskRequest{Id: id, WaitId: waitID,
		Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}})
	if err != nil && ctx.Err() == nil {
		cancel(fmt.Errorf("approving a step of task %s: %w", id, err))
	}
}

// ignoreEnd is nil for the end of a stream.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
