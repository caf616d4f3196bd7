package sim

import (
	"flag"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

var (
	oneSeed = flag.Uint64("sim.seed", 0, "simulate this seed alone, and print its trace")
	seeds   = flag.Uint64("sim.seeds", 0, "how many seeds to simulate; 0 for the usual number")
	first   = flag.Uint64("sim.first", 1, "the first seed")
	lasts   = flag.Duration("sim.for", 0, "simulate no further seed after this time; 0 for no bound")
)

// ram returns a folder in memory if the machine has one, since the disk is not what is simulated; else one on the disk.
func ram(t *testing.T) string {
	if dir, err := os.MkdirTemp("/dev/shm", "pawl-sim-*"); err == nil { //nolint:usetesting // t.TempDir is on the disk
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// Whatever processes, connections, disks and people do, the rules hold (A1, A3–A6, A9–A11, A14, A17–A29, B1, B19). A seed that fails is
// replayed with -sim.seed.
func TestSimulation(t *testing.T) {
	dir := ram(t)
	if *oneSeed != 0 {
		replay(t, *oneSeed, dir)
		return
	}
	n := *seeds
	if n == 0 {
		n = usualSeeds
	}
	began := time.Now()
	var next, tasks, failed atomic.Uint64
	next.Store(*first)
	t.Run("seeds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for failed.Load() < 5 && (*lasts == 0 || time.Since(began) < *lasts) {
					seed := next.Add(1) - 1
					if seed >= *first+n {
						return
					}
					o := simulate(t, seed, dir, plant{}, false)
					removeJournal(dir, seed)
					tasks.Add(uint64(o.tasks))
					if len(o.problems) > 0 {
						failed.Add(1)
						t.Errorf("seed %d (replay it with -run TestSimulation -sim.seed=%d):\n  %s", seed, seed, short(o.problems))
					}
				}
			})
		}
	})
	if tasks.Load() == 0 {
		t.Error("no task was created")
	}
	t.Logf("%d seeds, %d tasks in %s", min(next.Load()-*first, n), tasks.Load(), time.Since(began).Round(time.Millisecond))
}

// replay prints the trace of one seed. A select with several ready cases picks one by itself, so that a seed may fail only
// sometimes: it is tried until it does.
func replay(t *testing.T, seed uint64, dir string) {
	const tries = 50
	for try := range tries {
		o := simulate(t, seed, dir, plant{}, true)
		removeJournal(dir, seed)
		if len(o.problems) == 0 && try < tries-1 {
			continue
		}
		for _, line := range o.trace {
			t.Log(line)
		}
		for _, problem := range o.problems {
			t.Errorf("seed %d, run %d: %s", seed, try+1, problem)
		}
		return
	}
}

// A seed that fails can be replayed: most seeds give the same trace again to the last line, and the others differ where a select
// found several cases ready. The test runs on one processor, because that is more frequent on several.
func TestReplay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const all = 25
	dir, same := ram(t), 0
	for seed := uint64(1); seed <= all; seed++ {
		var traces [2][]string
		for i := range traces {
			traces[i] = simulate(t, seed, dir, plant{}, false).trace
			removeJournal(dir, seed)
		}
		if slices.Equal(traces[0], traces[1]) {
			same++
			continue
		}
		for i := range min(len(traces[0]), len(traces[1])) {
			if traces[0][i] != traces[1][i] {
				t.Logf("seed %d differs at line %d of %d:\n%s\n%s", seed, i, len(traces[0]), traces[0][i], traces[1][i])
				break
			}
		}
	}
	if same < leastSame {
		t.Errorf("%d of %d seeds give the same trace again, want %d", same, all, leastSame)
	}
	t.Logf("%d of %d seeds give the same trace again", same, all)
}
