package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
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

// finished is one run that has ended.
type finished struct {
	at   time.Time
	took time.Duration
}

// warmUp is how long a contender runs before it is measured.
const warmUp = 500 * time.Millisecond

// load keeps `at` runs going, and measures for a while after a warm-up.
func (c *contender) load(ctx context.Context, at int, each time.Duration) (sample, error) {
	before, err := c.file()
	if err != nil {
		return sample{}, err
	}
	w := c.work(ctx, at)
	m, err := c.observe(w, each)
	all, failed := w.end()
	if err != nil || failed != nil {
		return sample{}, fmt.Errorf("%s at %d: %w", c.name, at, firstError(failed, err))
	}
	s := m.sample(all)
	after, err := c.file()
	if err == nil && c.journal != "" {
		s.bytes = float64(after.used-before.used) / float64(len(all))
		s.commits = float64(after.transaction-before.transaction) / float64(len(all))
	}
	return s, err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *contender) file() (boltMeta, error) {
	if c.journal == "" {
		return boltMeta{}, nil
	}
	return readMeta(c.journal)
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

// observation is what was seen from outside between two instants.
type observation struct {
	from, to time.Time
	cpu      map[string]float64
	memory   map[string]float64
	machine  float64 // CPU seconds of everything on it
}

// observe waits for the warm-up and then looks at the processes for a while.
func (c *contender) observe(w *workers, each time.Duration) (*observation, error) {
	if err := w.wait(warmUp); err != nil {
		return nil, err
	}
	pids, err := c.pids()
	if err != nil {
		return nil, err
	}
	o := &observation{from: time.Now(), memory: map[string]float64{}}
	before, err := cpuOf(pids)
	if err != nil {
		return nil, err
	}
	if o.machine, err = machineSeconds(); err != nil {
		return nil, err
	}
	const looks = 10
	for range looks {
		if err := w.wait(each / looks); err != nil {
			return nil, err
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
	machine, err := machineSeconds()
	if err != nil {
		return nil, err
	}
	o.machine = machine - o.machine
	after, err := cpuOf(pids)
	for name := range before {
		after[name] -= before[name]
	}
	o.cpu = after
	return o, err
}

// wait lets time pass, unless a run fails.
func (w *workers) wait(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case err := <-w.failed:
		w.stop()
		return err
	}
}

// pids are the processes by name: the system's, its tool, and the caller, which is this one.
func (c *contender) pids() (map[string]int, error) {
	pids := map[string]int{caller: os.Getpid()}
	for _, p := range c.processes {
		pids[p.name] = p.pid
	}
	for _, p := range c.toolOf {
		found, err := children(p.pid)
		if err != nil {
			return nil, err
		}
		for _, pid := range found {
			pids[tool] = pid
		}
	}
	return pids, nil
}

// caller and tool name the processes that are not part of a system.
const (
	caller = "caller"
	tool   = "tool"
)

func cpuOf(pids map[string]int) (map[string]float64, error) {
	all := map[string]float64{}
	for name, pid := range pids {
		s, err := cpuSeconds(pid)
		if err != nil {
			return nil, err
		}
		all[name] = s
	}
	return all, nil
}

// sample counts the runs that ended within the observation.
func (o *observation) sample(all []finished) sample {
	var took []time.Duration
	for _, f := range all {
		if f.at.After(o.from) && !f.at.After(o.to) {
			took = append(took, f.took)
		}
	}
	s := sample{perSecond: float64(len(took)) / o.to.Sub(o.from).Seconds(), cpu: map[string]float64{}, memory: o.memory}
	s.others, s.runs = o.machine, len(all)
	for name, seconds := range o.cpu {
		s.others -= seconds
		s.cpu[name] = seconds / float64(max(len(took)*stepsPerTask, 1)) * 1000
	}
	// Ticks are coarse: it may come out below nothing.
	s.others = max(0, s.others/(o.to.Sub(o.from).Seconds()*float64(runtime.NumCPU())))
	s.p50, s.p99 = quantiles(took)
	return s
}
