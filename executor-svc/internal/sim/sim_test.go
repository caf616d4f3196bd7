package sim

import (
	"flag"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

var (
	oneSeed = flag.Uint64("sim.seed", 0, "simulate this seed alone, and print its trace")
	seeds   = flag.Uint64("sim.seeds", 0, "how many seeds to simulate; 0 for the usual number")
	first   = flag.Uint64("sim.first", 1, "the first of them")
)

// ram is a folder in memory where there is one: what is simulated is not the disk.
func ram(t *testing.T) string {
	if dir, err := os.MkdirTemp("/dev/shm", "pawl-sim-*"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// Whatever happens to processes, connections, disks and people's minds: the rules hold (A1, A3–A6, A9–A11, A14, A17–A29,
// DESIGN 4). A seed that fails is replayed with -sim.seed.
func TestSimulation(t *testing.T) {
	dir := ram(t)
	if *oneSeed != 0 {
		o := simulate(t, *oneSeed, dir, plant{}, true)
		for _, line := range o.trace {
			t.Log(line)
		}
		for _, problem := range o.problems {
			t.Errorf("seed %d: %s", *oneSeed, problem)
		}
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
				for failed.Load() < 5 {
					seed := next.Add(1) - 1
					if seed >= *first+n {
						return
					}
					o := simulate(t, seed, dir, plant{}, false)
					os.Remove(journalOf(dir, seed))
					tasks.Add(uint64(o.tasks))
					if len(o.problems) > 0 {
						failed.Add(1)
						t.Errorf("seed %d (replay it with -run TestSimulation -sim.seed=%d):\n  %s", seed, seed, short(o.problems))
					}
				}
			})
		}
	})
	t.Logf("%d seeds, %d tasks in %s", min(next.Load()-*first, n), tasks.Load(), time.Since(began).Round(time.Millisecond))
}

// A seed that fails can be replayed: what happens depends on nothing else.
func TestReplay(t *testing.T) {
	dir := ram(t)
	for seed := uint64(1); seed <= 25; seed++ {
		var traces [2][]string
		for i := range traces {
			traces[i] = simulate(t, seed, dir, plant{}, false).trace
			os.Remove(journalOf(dir, seed))
		}
		for i := range min(len(traces[0]), len(traces[1])) {
			if traces[0][i] != traces[1][i] {
				t.Errorf("seed %d differs at line %d:\n%s\n%s", seed, i, traces[0][i], traces[1][i])
				break
			}
		}
	}
}
