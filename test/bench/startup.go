package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/serve"
)

// startup measures from exec to serving, with an empty journal and with one of many finished tasks, in turns.
func (b *bench) startup(ctx context.Context, d *document) {
	n := b.few(100_000)
	full, id := b.fullJournal(ctx, n)
	empty := b.folder()
	took := map[string][]float64{}
	for range max(b.rounds, 3) {
		took[empty] = append(took[empty], b.timeToServe(ctx, empty, ""))
		took[full] = append(took[full], b.timeToServe(ctx, full, id))
	}
	d.text("The executor from exec until its health check says SERVING; the file lies in the page cache.")
	d.table([]string{"journal", "ms", "target"}, [][]string{
		{"empty", figure(median(took[empty])), ""},
		{fmt.Sprintf("%d finished tasks of ten steps, %d MB", n, must(readMeta(filepath.Join(full, "journal.db"))).used>>20), figure(median(took[full])), "< 300 at 100,000"},
	})
}

// timeToServe starts the executor alone, since planner and pool need not be there, and sees that a task that was copied is one.
func (b *bench) timeToServe(ctx context.Context, folder, id string) (ms float64) {
	addrs := freeAddrs(ctx, 3)
	b.scope(func() {
		began := time.Now()
		b.serve(ctx, "executor", addrs[0], nil, b.program("executor-svc"), "--data", folder, "--planner", addrs[1], "--pool", addrs[2])
		ms = milliseconds(time.Since(began))
		if id == "" {
			return
		}
		conn := must(serve.Dial(addrs[0], ""))
		b.atEnd(conn.Close)
		steps := must(executorv1.NewExecutorServiceClient(conn).ListSteps(ctx, &executorv1.ListStepsRequest{Id: id}))
		if len(steps.GetSteps()) < stepsPerTask {
			check(fmt.Errorf("a copied task has %d steps", len(steps.GetSteps())))
		}
	})
	return ms
}

// fullJournal runs one task and copies it: what would take minutes to run takes seconds to write. It returns the folder
// and the id of the last copy.
func (b *bench) fullJournal(ctx context.Context, n int) (folder, id string) {
	var p *pawl
	var original string
	b.scope(func() {
		p = b.startPawl(ctx, fourProcesses)
		check(p.run(ctx, p.echo(), func(e *executorv1.ExecutorEvent) { original = e.GetTaskId() }))
	})
	b.logf("copying a task %d times", n)
	return filepath.Dir(p.journal), must(multiply(p.journal, original, n))
}
