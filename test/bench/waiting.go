package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// waiting measures what tasks that wait for a person cost the executor.
func (b *bench) waiting(ctx context.Context, d *document) (err error) {
	n := b.few(10_000)
	p, err := b.startFour(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	// A tenth first: what a process needs to work at all is not what waiting costs.
	if err := p.leaveWaiting(ctx, n/10); err != nil {
		return err
	}
	before, err := settled(p.executor.pid)
	if err != nil {
		return err
	}
	file, err := readMeta(p.journal)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := p.leaveWaiting(ctx, n); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := settled(p.executor.pid)
	if err != nil {
		return err
	}
	grown, err := readMeta(p.journal)
	if err != nil {
		return err
	}
	if err := p.executor.stop(); err != nil {
		return err
	}
	p.dropExecutor()
	if err := p.takeUp(ctx); err != nil {
		return err
	}
	restarted, err := settled(p.executor.pid)
	if err != nil {
		return err
	}
	d.text("%d tasks with a writing step, each stopped for an approval. Memory is anonymous memory of the executor, "+
		"the lowest within two seconds after the last task; garbage that was not collected yet is in it.", n)
	d.table([]string{"what", "measured", "target at 10,000"}, [][]string{
		{"memory before, MB", figure(before), ""},
		{"memory that they add, MB", figure(after - before), "< 50"},
		{"per waiting task, KB", figure((after - before) * 1024 / float64(n)), ""},
		{"memory after a restart with all of them waiting, MB", figure(restarted), ""},
		{"bytes of the journal per waiting task", figure(float64(grown.used-file.used) / float64(n)), ""},
		{"created and waiting, tasks per second", figure(float64(n) / took.Seconds()), ""},
	})
	return nil
}

// leaveWaiting creates tasks until n wait for an approval.
func (p *pawl) leaveWaiting(ctx context.Context, n int) error {
	path := filepath.Join(p.b.work, "effects.txt")
	req := request(playbook(1, "t/append", fmt.Sprintf("path: %q, line: x", path)))
	work := make(chan struct{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range work {
				if err := p.untilWaiting(ctx, req); err != nil {
					cancel(err)
				}
			}
		})
	}
	for range n {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// untilWaiting runs a task until it waits.
func (p *pawl) untilWaiting(ctx context.Context, req *executorv1.CreateTaskRequest) error {
	stream, err := p.tasks.RunTask(ctx, &executorv1.RunTaskRequest{Task: req})
	for err == nil {
		var e *executorv1.ExecutorEvent
		if e, err = stream.Recv(); err != nil {
			break
		}
		switch e.GetType() {
		case executorv1.EventType_EVENT_TYPE_FLOW_STOP:
			_, err = stream.Recv() // the stream ends here by itself
			return ignoreEnd(err)
		case executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.EventType_EVENT_TYPE_FLOW_FAILED:
			return fmt.Errorf("a task that should wait for an approval: %v", e)
		}
	}
	return err
}

// settled is the lowest anonymous memory of a process within two seconds.
func settled(pid int) (float64, error) {
	lowest := 0.0
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		<-tick.C
		mb, err := anonymousMB(pid)
		if err != nil {
			return 0, err
		}
		if lowest == 0 || mb < lowest {
			lowest = mb
		}
	}
	return lowest, nil
}
