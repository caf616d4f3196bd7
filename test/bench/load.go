package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

// contender is a system under load: one run is one durable task of ten steps.
type contender struct {
	name      string
	run       func(context.Context) error
	processes []*process
	// toolOf are the processes whose children are the tool, which is counted apart.
	toolOf []*process
	// journal is the bbolt file of a system that has one.
	journal string
}

// sample is what one measurement of a contender gave.
type sample struct {
	perSecond, p50, p99 float64
	cpu                 map[string]float64 // seconds per 1,000 steps, by process
	memory              map[string]float64 // anonymous MB under load, by process
	bytes               float64            // of the journal, per task
	commits             float64            // transactions of the journal's file per task
	others              float64            // share of the machine that was used by nothing named here
	runs                int                // from the first to the last, the warm-up included
}

// samples are the measurements of a contender, by level.
type samples map[int][]sample

// of is the median of a figure over the quieter rounds at a level.
func (s samples) of(level int, figure func(sample) float64) float64 {
	var values []float64
	for _, one := range s.quieter(level) {
		values = append(values, figure(one))
	}
	return median(values)
}

// quieter are those measurements, one more than half, at which the rest of the machine did least.
func (s samples) quieter(level int) []sample {
	all := slices.SortedFunc(slices.Values(s[level]), func(a, b sample) int { return cmp.Compare(a.others, b.others) })
	return all[:quieter(len(all))]
}

// quieter is how many of n rounds count.
func quieter(n int) int { return min(n, n/2+1) }

// caller and tool name the processes that are not part of a system.
const (
	caller = "caller"
	tool   = "tool"
)

// own are the processes of a system itself, at the measurements that were made.
func (s samples) own() []string {
	names := map[string]bool{}
	for _, all := range s {
		for _, one := range all {
			for name := range one.cpu {
				names[name] = name != caller && name != tool
			}
		}
	}
	maps.DeleteFunc(names, func(_ string, own bool) bool { return !own })
	return slices.Sorted(maps.Keys(names))
}

// sumOf is a figure over a system's own processes.
func (s samples) sumOf(level int, of func(string) func(sample) float64) float64 {
	sum := 0.0
	for _, process := range s.own() {
		sum += s.of(level, of(process))
	}
	return sum
}

// runs counts all that were made.
func (s samples) runs() int {
	n := 0
	for _, all := range s {
		for _, one := range all {
			n += one.runs
		}
	}
	return n
}

func perSecond(s sample) float64 { return s.perSecond }

// cpuFor and memoryFor are figures of one process.
func cpuFor(name string) func(sample) float64 { return func(s sample) float64 { return s.cpu[name] } }
func memoryFor(name string) func(sample) float64 {
	return func(s sample) float64 { return s.memory[name] }
}

// finished is one run that has ended.
type finished struct {
	at   time.Time
	took time.Duration
}

// warmUp is how long a contender runs before it is measured.
const warmUp = 500 * time.Millisecond

// load keeps `at` runs going, and measures for a while after a warm-up.
func (c *contender) load(ctx context.Context, at int, each time.Duration) sample {
	before := c.file()
	w := c.work(ctx, at)
	defer w.stop()
	o, err := c.observe(w, each)
	all, failed := w.end()
	if err = errors.Join(failed, err); err != nil {
		check(fmt.Errorf("%s at %d: %w", c.name, at, err))
	}
	s, after := o.sample(all), c.file()
	s.bytes = float64(after.used-before.used) / float64(len(all))
	s.commits = float64(after.transaction-before.transaction) / float64(len(all))
	return s
}

func (c *contender) file() boltMeta {
	if c.journal == "" {
		return boltMeta{}
	}
	return must(readMeta(c.journal))
}

// workers keep runs going until they are ended or one fails.
type workers struct {
	stop   context.CancelFunc
	wg     sync.WaitGroup
	failed chan error

	mu  sync.Mutex // guards all
	all []finished
}

func (c *contender) work(ctx context.Context, at int) *workers {
	w := &workers{failed: make(chan error, at)}
	going, stop := context.WithCancel(ctx)
	w.stop = stop
	for range at {
		w.wg.Go(func() {
			var mine []finished
			for going.Err() == nil {
				began := time.Now()
				// A run that was begun is finished, so that none is left behind in the system.
				if err := c.run(ctx); err != nil {
					w.failed <- err
					stop()
					break
				}
				mine = append(mine, finished{at: time.Now(), took: time.Since(began)})
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, mine...)
		})
	}
	return w
}

// end waits for the runs that are going.
func (w *workers) end() ([]finished, error) {
	w.stop()
	w.wg.Wait()
	select {
	case err := <-w.failed:
		return nil, err
	default:
		return w.all, nil
	}
}

// wait lets time pass, unless a run fails; end returns why.
func (w *workers) wait(d time.Duration) (ok bool) {
	select {
	case <-time.After(d):
		return true
	case err := <-w.failed:
		w.failed <- err
		return false
	}
}

// observation is what was seen from outside between two instants.
type observation struct {
	from, to time.Time
	cpu      map[string]float64 // seconds by process, and of the whole machine by ""
	memory   map[string]float64
}

// observe waits for the warm-up and then looks at the processes for a while: the system's, its tool, and the caller, which is this one.
func (c *contender) observe(w *workers, each time.Duration) (*observation, error) {
	o := &observation{memory: map[string]float64{}}
	if !w.wait(warmUp) {
		return o, nil
	}
	pids := map[string]int{caller: os.Getpid()}
	for _, p := range c.processes {
		pids[p.name] = p.pid
	}
	for _, p := range c.toolOf {
		for _, pid := range children(p.pid) {
			pids[tool] = pid
		}
	}
	o.from = time.Now()
	before, err := cpuOf(pids)
	if err != nil {
		return nil, err
	}
	const looks = 10
	for range looks {
		if !w.wait(each / looks) {
			return o, nil
		}
		for name, pid := range pids {
			mb, err := anonymousMB(pid)
			if err != nil {
				return nil, err
			}
			o.memory[name] = max(o.memory[name], mb)
		}
	}
	o.to = time.Now()
	if o.cpu, err = cpuOf(pids); err != nil {
		return nil, err
	}
	for name := range before {
		o.cpu[name] -= before[name]
	}
	return o, nil
}

func cpuOf(pids map[string]int) (all map[string]float64, err error) {
	all = map[string]float64{}
	for name, pid := range pids {
		if all[name], err = cpuSeconds(pid); err != nil {
			return nil, err
		}
	}
	all[""], err = machineSeconds()
	return all, err
}

// sample counts the runs that ended within the observation.
func (o *observation) sample(all []finished) sample {
	var took []time.Duration
	for _, f := range all {
		if f.at.After(o.from) && !f.at.After(o.to) {
			took = append(took, f.took)
		}
	}
	seconds := o.to.Sub(o.from).Seconds()
	s := sample{perSecond: float64(len(took)) / seconds, cpu: map[string]float64{}, memory: o.memory, others: o.cpu[""], runs: len(all)}
	for name, used := range o.cpu {
		if name != "" {
			s.others -= used
			s.cpu[name] = used / float64(max(len(took)*stepsPerTask, 1)) * 1000
		}
	}
	// Ticks are coarse: it may come out below nothing.
	s.others = max(0, s.others/(seconds*float64(runtime.NumCPU())))
	s.p50, s.p99 = quantiles(took)
	return s
}
