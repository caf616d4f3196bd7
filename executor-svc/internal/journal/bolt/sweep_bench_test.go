package bolt_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pawl.dev/executor-svc/internal/journal/bolt"
)

// BenchmarkSweep measures the deletion of ended tasks of ten steps: without a pause and nothing beside it, and as the engine does it beside running
// tasks that commit as fast as they can; "swept" is how long their commits take meanwhile, "calm" how long they take without it.
func BenchmarkSweep(b *testing.B) {
	const tasks, writers = 4000, 8
	var alone, beside time.Duration
	var calm, swept []time.Duration
	for b.Loop() {
		s, err := bolt.Open(filepath.Join(b.TempDir(), "journal.db"))
		if err != nil {
			b.Fatal(err)
		}
		for range 3 * tasks / 1000 {
			finishTasks(b, s, 1000, 10)
		}
		alone += sweepAll(b, s, tasks, 0)
		for range 2 { // in turns, so that both see the same machine
			var took time.Duration
			during := load(b, s, writers, func() { took = sweepAll(b, s, tasks, 1) })
			beside, swept = beside+took, append(swept, during...)
			calm = append(calm, load(b, s, writers, func() { <-time.After(took) })...)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*tasks)/alone.Seconds(), "tasks/s-alone")
	b.ReportMetric(float64(2*b.N*tasks)/beside.Seconds(), "tasks/s-beside")
	for name, all := range map[string][]time.Duration{"calm": calm, "swept": swept} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs-"+name)
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs-"+name)
	}
	b.ReportMetric(0, "ns/op")
}

// sweepAll deletes that many tasks, with pauses in proportion to what the deletions take, and returns how long that took.
func sweepAll(b *testing.B, s *bolt.Store, tasks, pause int) time.Duration {
	began := time.Now()
	for n := 0; n < tasks; {
		at := time.Now()
		m, err := s.Sweep(context.Background(), time.Unix(0, future), min(64, tasks-n))
		if err != nil || m == 0 {
			b.Fatal(m, err)
		}
		n += m
		<-time.After(time.Duration(pause) * time.Since(at))
	}
	return time.Since(began)
}

// load commits steps of running tasks until do returns, and returns how long each commit took.
func load(b *testing.B, s *bolt.Store, writers int, do func()) []time.Duration {
	workers := make([]*worker, writers)
	for i := range workers {
		var err error
		if workers[i], err = newWorker(b.Context(), s, "ann"); err != nil {
			b.Fatal(err)
		}
	}
	if err := own(b.Context(), s, workers); err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() { do(); close(done) }()
	took := make([][]time.Duration, writers)
	each(writers, func(i int) {
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, commit := range []func(context.Context, int) error{workers[i].intent, workers[i].outcome} {
				began := time.Now()
				if err := commit(context.Background(), 60); err != nil {
					b.Error(err)
				}
				took[i] = append(took[i], time.Since(began))
			}
		}
	})
	return slices.Concat(took...)
}
