package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// startup measures the time from exec to serving, with an empty journal and with a journal of many finished tasks, in turns.
func (b *bench) startup(ctx context.Context, d *document) {
	n := b.scaled(100_000)
	full, empty := b.fullJournal(ctx, n), b.folder()
	took := map[string][]float64{}
	for range max(b.rounds, 3) {
		for _, folder := range []string{empty, full} {
			took[folder] = append(took[folder], b.timeToServe(ctx, folder))
		}
	}
	d.text("The executor from exec until its health check says SERVING; the file lies in the page cache.")
	d.table([]string{"journal", "ms", "target"}, [][]string{
		{"empty", figure(median(took[empty])), ""},
		{fmt.Sprintf("%d finished tasks, %d MB", n, readMeta(filepath.Join(full, "journal.db")).used>>20), figure(median(took[full])), "< 300 at 100,000"},
	})
}

// timeToServe starts the executor, without planner and pool, and returns the time until it serves.
func (b *bench) timeToServe(ctx context.Context, folder string) (ms float64) {
	addrs := freeAddrs(ctx, 3)
	b.scope(func() {
		began := time.Now()
		b.serve(ctx, "executor", addrs[0], network{}, b.program("executor-svc"), "--data", folder, "--planner", addrs[1], "--pool", addrs[2])
		ms = milliseconds(time.Since(began))
	})
	return ms
}

// fullJournal returns a data folder in which n tasks of one step have ended. The run creates it once.
func (b *bench) fullJournal(ctx context.Context, n int) string {
	if folder, ok := b.journals[n]; ok {
		return folder
	}
	b.scope(func() {
		p := b.startPawl(ctx, inProcess)
		req := &executorv1.RunTaskRequest{Task: equalSteps(1, inProcess.tool, "text: hello")}
		b.logf("running %d tasks", n)
		times(ctx, n, 128, func(ctx context.Context) error {
			return p.follow(ctx, req, func(e *executorv1.ExecutorEvent) bool {
				return e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS
			})
		})
		b.journals[n] = filepath.Dir(p.journal)
	})
	return b.journals[n]
}
