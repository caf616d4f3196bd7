package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// contender is a measured system. A run is a durable task, or a single call.
type contender struct {
	name      string
	run       func(context.Context) error
	steps     int              // of a run
	processes []*process       // of the system, without the tool, which is a child of one of them
	journal   string           // its bbolt file; "" if it has none
	samples   map[int][]sample // by level: the number of runs at once
}

// sample is the result of one measurement of a contender.
type sample struct {
	perSecond, p50, p99 float64
	cpu                 map[string]float64 // seconds per 1,000 steps, by process
	memory              map[string]float64 // highest anonymous MB under load, by process
	bytes               float64            // of the journal, per task
	commits             float64            // transactions of the journal's file per task
	others              float64            // share of the machine that other processes used
}

// caller and tool name the processes that are not part of a system.
const (
	caller = "caller"
	tool   = "tool"
)

// of returns the median of a figure over the quieter rounds at a level.
func (c *contender) of(level int, figure func(sample) float64) float64 {
	var values []float64
	for _, s := range c.quieter(level) {
		values = append(values, figure(s))
	}
	return median(values)
}

// beside returns a figure of c divided by the same figure of another contender: the median of the ratios of each round, because the machine's speed
// changes between rounds. It is 0 without samples of both.
func (c *contender) beside(other *contender, level int, figure func(sample) float64) float64 {
	var ratios []float64
	for round := range min(len(c.samples[level]), len(other.samples[level])) {
		if of := figure(other.samples[level][round]); of > 0 {
			ratios = append(ratios, figure(c.samples[level][round])/of)
		}
	}
	return median(ratios)
}

// quieter returns the samples of just over half of the rounds: those with the lowest load from other processes.
func (c *contender) quieter(level int) []sample {
	all := slices.SortedFunc(slices.Values(c.samples[level]), func(a, b sample) int { return cmp.Compare(a.others, b.others) })
	return all[:quieterCount(len(all))]
}

// quieterCount returns how many of n rounds count.
func quieterCount(n int) int { return min(n, n/2+1) }

// sumOf returns the sum of a figure over the system's own processes.
func (c *contender) sumOf(level int, of func(process string) func(sample) float64) (sum float64) {
	for _, p := range c.processes {
		sum += c.of(level, of(p.name))
	}
	return sum
}

func perSecond(s sample) float64 { return s.perSecond }
func p50(s sample) float64       { return s.p50 }

// cpuFor and memoryFor return the figure of one process.
func cpuFor(name string) func(sample) float64 { return func(s sample) float64 { return s.cpu[name] } }
func memoryFor(name string) func(sample) float64 {
	return func(s sample) float64 { return s.memory[name] }
}

// inTurns measures every system at every level, in turns, so that other load on the machine affects them alike.
func (b *bench) inTurns(ctx context.Context, systems []*contender, levels []int) {
	for round := range b.rounds {
		for _, level := range levels {
			for i := range systems {
				b.measureAt(ctx, systems[(i+round)%len(systems)], level, round)
			}
		}
	}
}

// measureAt adds a sample of a contender at a level.
func (b *bench) measureAt(ctx context.Context, c *contender, level, round int) {
	b.awaitQuiet(ctx)
	s := c.load(ctx, level, b.each)
	if c.samples == nil {
		c.samples = map[int][]sample{}
	}
	c.samples[level] = append(c.samples[level], s)
	b.logf("round %d, at %d, %s: %.0f/s, p50 %.3f ms, others %.0f %%", round+1, level, c.name, s.perSecond, s.p50, s.others*100)
}

// warmUp is how long a contender runs before it is measured.
const warmUp = 500 * time.Millisecond

// finished is one run that has ended.
type finished struct {
	at   time.Time
	took time.Duration
}

// load keeps `level` runs going at once and, after a warm-up, measures them for the duration `each`.
func (c *contender) load(ctx context.Context, level int, each time.Duration) sample {
	before := c.file()
	going, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex // guards all
	var all []finished
	work, going := errgroup.WithContext(going)
	for range level {
		work.Go(func() error {
			for going.Err() == nil {
				began := time.Now()
				// With ctx, a run that has begun ends regularly; going would cut it off.
				if err := c.run(ctx); err != nil {
					return fmt.Errorf("%s at %d: %w", c.name, level, err)
				}
				mu.Lock()
				all = append(all, finished{at: time.Now(), took: time.Since(began)})
				mu.Unlock()
			}
			return nil
		})
	}
	o := c.observe(going, each)
	stop()
	check(work.Wait())
	s, after := o.sample(all, c.steps), c.file()
	s.bytes = float64(after.used-before.used) / float64(len(all))
	s.commits = float64(after.transaction-before.transaction) / float64(len(all))
	return s
}

// file returns the header of the journal; zero if there is no journal.
func (c *contender) file() (m boltMeta) {
	if c.journal != "" {
		m = readMeta(c.journal)
	}
	return m
}

// observation holds the resources that the measured processes used between two instants.
type observation struct {
	from, to time.Time
	cpu      map[string]float64 // seconds by process; "" is the whole machine
	memory   map[string]float64 // highest anonymous MB by process
}

// observe waits for the warm-up and then samples processes for the duration `each`: the system's, its tool, and the caller, which is this
// process.
func (c *contender) observe(going context.Context, each time.Duration) observation {
	wait(going, warmUp)
	pids := map[string]int{caller: os.Getpid()}
	for _, p := range c.processes {
		pids[p.name] = p.pid
		for _, pid := range children(p.pid) {
			pids[tool] = pid
		}
	}
	o := observation{from: time.Now(), cpu: map[string]float64{}, memory: map[string]float64{}}
	cpu := func(sign float64) {
		o.cpu[""] += sign * machineSeconds()
		for name, pid := range pids {
			o.cpu[name] += sign * cpuSeconds(pid)
		}
	}
	cpu(-1)
	const memorySamples = 10
	for range memorySamples {
		wait(going, each/memorySamples)
		for name, pid := range pids {
			o.memory[name] = max(o.memory[name], anonymousMB(pid))
		}
	}
	cpu(1)
	o.to = time.Now()
	return o
}

// sample returns the figures of the runs that ended during the observation, each of so many steps, except the figures of the journal.
func (o observation) sample(all []finished, steps int) sample {
	var took []time.Duration
	for _, f := range all {
		if f.at.After(o.from) && !f.at.After(o.to) {
			took = append(took, f.took)
		}
	}
	seconds := o.to.Sub(o.from).Seconds()
	s := sample{perSecond: float64(len(took)) / seconds, cpu: map[string]float64{}, memory: o.memory, others: o.cpu[""]}
	for name, used := range o.cpu {
		if name != "" {
			s.others -= used
			s.cpu[name] = used / float64(max(len(took)*steps, 1)) * 1000
		}
	}
	// The clock ticks of the kernel are coarse, so the difference may be negative.
	s.others = max(0, s.others/(seconds*float64(runtime.NumCPU())))
	s.p50, s.p99 = quantiles(took)
	return s
}

// times makes n runs, up to atOnce at the same time.
func times(ctx context.Context, n, atOnce int, run func(context.Context) error) {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for range n {
		if ctx.Err() != nil {
			break
		}
		work.Go(func() error { return run(ctx) })
	}
	check(work.Wait())
}
