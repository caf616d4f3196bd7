package bolt_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
)

// stepsPerTask is the number of steps of each task of the benchmarks.
const stepsPerTask = 10

// BenchmarkSteps measures committed steps, two commits each, beside a bare bbolt loop that writes keys and values of the
// same sizes with the same group commit, in turns within one run.
func BenchmarkSteps(b *testing.B) {
	for _, writers := range []int{1, 32, 128} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			var store, bare cost
			var ratios []float64
			steps := 0
			for b.Loop() {
				// In turns, so that both see the same machine.
				mine, other := storeTasks(b, writers), bareTasks(b, writers)
				store.add(mine)
				bare.add(other)
				ratios = append(ratios, other.wall.Seconds()/mine.wall.Seconds())
				steps += writers * rounds(writers) * stepsPerTask
			}
			slices.Sort(ratios)
			b.ReportMetric(float64(steps)/store.wall.Seconds(), "steps/s")
			b.ReportMetric(float64(steps)/bare.wall.Seconds(), "bare-steps/s")
			b.ReportMetric(float64(store.cpu.Microseconds())/float64(steps), "cpu-µs/step")
			b.ReportMetric(float64(bare.cpu.Microseconds())/float64(steps), "bare-cpu-µs/step")
			b.ReportMetric(2*float64(steps)/float64(store.batches), "commits/sync")
			b.ReportMetric(2*float64(steps)/float64(bare.batches), "bare-commits/tx")
			b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// cost is the cost of a run. A batch is a log record of the store, or a transaction of the bare loop.
type cost struct {
	wall, cpu time.Duration
	batches   int
}

func (c *cost) add(other cost) {
	c.wall, c.cpu, c.batches = c.wall+other.wall, c.cpu+other.cpu, c.batches+other.batches
}

// measure returns the cost of run; batches returns how many there were so far.
func measure(b *testing.B, batches func() int, run func()) cost {
	runtime.GC()
	before, cpu, start := batches(), cpuTime(b), time.Now()
	run()
	return cost{wall: time.Since(start), cpu: cpuTime(b) - cpu, batches: batches() - before}
}

func cpuTime(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func txID(db *bbolt.DB) (id int) {
	if err := db.View(func(tx *bbolt.Tx) error { id = tx.ID(); return nil }); err != nil {
		panic(err)
	}
	return id
}

// rounds is how many tasks each writer makes, so that a run takes long enough.
func rounds(writers int) int { return max(1, 640/writers/8) }

func storeTasks(b *testing.B, writers int) cost {
	s, err := bolt.Open(filepath.Join(b.TempDir(), "journal.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var workers []*worker
	for range writers * rounds(writers) {
		w, err := newWorker(b.Context(), s, "ann")
		if err != nil {
			b.Fatal(err)
		}
		workers = append(workers, w)
	}
	if err := own(b.Context(), s, workers); err != nil {
		b.Fatal(err)
	}
	made := make([][]journal.Transition, len(workers))
	for i, w := range workers {
		w.made = &made[i]
		for range stepsPerTask {
			if err := errors.Join(w.intent(b.Context(), 60), w.outcome(b.Context(), 60)); err != nil {
				b.Fatal(err)
			}
		}
	}
	return measure(b, func() int { return s.Logged() }, func() {
		each(writers, func(i int) {
			for _, task := range made[i*rounds(writers) : (i+1)*rounds(writers)] {
				for _, t := range task {
					if err := s.Commit(context.Background(), t); err != nil {
						b.Error(err)
					}
				}
			}
		})
		// Applying the log is part of the cost.
		if err := s.Apply(); err != nil {
			b.Error(err)
		}
	})
}

func each(writers int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// The bytes that a step writes in storeTasks: see TestBytesPerStep.
const (
	checkpointIntent, recordIntent   = 150, 190
	checkpointOutcome, recordOutcome = 45, 125
)

// bareTasks writes as much with group commit alone.
func bareTasks(b *testing.B, writers int) cost {
	l := newLoop(b)
	defer l.close()
	ids := make([]uuid.UUID, writers*rounds(writers))
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
		l.do(put{key(ids[i], 0, 0), make([]byte, 180)}, put{key(ids[i], 1, 0), make([]byte, 40)})
	}
	return measure(b, func() int { return txID(l.db) }, func() {
		each(writers, func(i int) {
			for n := range rounds(writers) {
				id := ids[i*rounds(writers)+n]
				for step := range uint64(stepsPerTask) {
					l.do(put{key(id, 1, 0), make([]byte, checkpointIntent)}, put{key(id, 2, step*3+2), make([]byte, recordIntent)})
					l.do(put{key(id, 1, 0), make([]byte, checkpointOutcome)}, put{key(id, 2, step*3+4), make([]byte, recordOutcome)})
				}
			}
		})
	})
}

func key(id uuid.UUID, part byte, seq uint64) []byte {
	k := append(append([]byte{'t'}, id[:]...), part)
	if part == 2 {
		k = binary.BigEndian.AppendUint64(k, seq)
	}
	return k
}

type put struct{ key, value []byte }

// loop is group commit and nothing else.
type loop struct {
	db   *bbolt.DB
	ops  chan bareOp
	done chan struct{}
}

type bareOp struct {
	puts []put
	done chan error
}

func newLoop(b *testing.B) *loop {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "bare.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("pawl")); return err }); err != nil {
		b.Fatal(err)
	}
	l := &loop{db: db, ops: make(chan bareOp, 1024), done: make(chan struct{})}
	go l.run()
	return l
}

func (l *loop) do(puts ...put) {
	o := bareOp{puts: puts, done: make(chan error, 1)}
	l.ops <- o
	if err := <-o.done; err != nil {
		panic(err)
	}
}

func (l *loop) run() {
	defer close(l.done)
	for o := range l.ops {
		batch := []bareOp{o}
	more:
		for len(batch) < 1024 {
			select {
			case next, ok := <-l.ops:
				if !ok {
					break more
				}
				batch = append(batch, next)
			default:
				break more
			}
		}
		err := l.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("pawl"))
			for _, o := range batch {
				for _, p := range o.puts {
					if err := b.Put(p.key, p.value); err != nil {
						return err
					}
				}
			}
			return nil
		})
		for _, o := range batch {
			o.done <- err
		}
	}
}

func (l *loop) close() {
	close(l.ops)
	<-l.done
	_ = l.db.Close()
}

// BenchmarkCommitPath measures the two commits of a step, one after the other.
func BenchmarkCommitPath(b *testing.B) {
	s, err := bolt.Open(filepath.Join(b.TempDir(), "journal.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	w, err := newWorker(b.Context(), s, "ann")
	if err != nil {
		b.Fatal(err)
	}
	if err := own(b.Context(), s, []*worker{w}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.intent(b.Context(), 60); err != nil {
			b.Fatal(err)
		}
		if err := w.outcome(b.Context(), 60); err != nil {
			b.Fatal(err)
		}
	}
}
