package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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

func perSecond(s sample) float64 { return s.perSecond }

// cpuFor and memoryFor are figures of one process.
func cpuFor(name string) func(sample) float64 { return func(s sample) float64 { return s.cpu[name] } }
func memoryFor(name string) func(sample) float64 {
	return func(s sample) float64 { return s.memory[name] }
}

// own are the processes of a system itself, at the measurements that were made.
func (s samples) own() []string {
	names := map[string]bool{}
	for _, all := range s {
		for _, one := range all {
			for name := range one.cpu {
				names[name] = true
			}
		}
	}
	delete(names, caller)
	delete(names, tool)
	return slices.Sorted(maps.Keys(names))
}

// The names of what part suite measures.
const (
	fourProcesses = "Pawl, four processes, stdio tool"
	oneProcess    = "Pawl, one process, stdio tool"
	inProcess     = "One process, in-process tool"
	peerTS        = "Restate, TypeScript SDK"
	peerGo        = "Restate, Go SDK"
)

// suite measures whole systems in turns, so that what else happens on the machine meets them alike.
func (b *bench) suite(ctx context.Context, d *document) (err error) {
	systems, stop, err := b.systems(ctx, d)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	before, err := b.peerBytes(ctx)
	if err != nil {
		return err
	}
	results, err := b.inTurns(ctx, systems)
	if err != nil {
		return err
	}
	after, err := b.peerBytes(ctx)
	if err != nil {
		return err
	}
	b.describeSuite(d, systems, results)
	if runs := results[peerTS].runs() + results[peerGo].runs(); runs > 0 {
		d.text("Restate's folder, which it trims, grew by %.0f bytes per run, over the %d runs of both SDKs.", (after-before)/float64(runs), runs)
	}
	b.describeOthers(d, results)
	b.targets(d, results)
	return nil
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

// describeOthers says how quiet the machine was.
func (b *bench) describeOthers(d *document, results map[string]samples) {
	var shares []float64
	for _, s := range results {
		for level := range s {
			for _, one := range s.quieter(level) {
				shares = append(shares, one.others*100)
			}
		}
	}
	d.text("The rest of the machine (other programs, and the kernel for all) took %.0f %% of the cores in the median measurement and %.0f %% in the worst; "+
		"where that is much, figures are too low.", median(shares), slices.Max(shares))
}

// systems starts what is measured. What could be started is stopped by stop, also where there is an error.
func (b *bench) systems(ctx context.Context, d *document) (all []*contender, stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for _, s := range stops {
			errs = append(errs, s())
		}
		return errors.Join(errs...)
	}
	four, err := b.startFour(ctx)
	if err != nil {
		return nil, stop, err
	}
	stops = append(stops, four.stop)
	one, err := b.startOne(ctx)
	if err != nil {
		return nil, stop, err
	}
	stops = append(stops, one.stop)
	inside, err := b.startInProcess(ctx)
	if err != nil {
		return nil, stop, err
	}
	stops = append(stops, inside.stop)
	all = []*contender{four.contender(fourProcesses, echo()), one.contender(oneProcess, echo()), inside.contender(inProcess, echoInProcess())}
	all[2].toolOf = nil
	if !b.peer {
		return all, stop, nil
	}
	peer, err := b.startRestate(ctx)
	if err == nil {
		stops = append(stops, peer.stop)
		err = b.addGoWorker(ctx, peer)
	}
	if err != nil {
		b.logf("Restate: %v", err)
		first, _, _ := strings.Cut(err.Error(), "\n")
		d.text("Restate could not be installed or started here, so its figures are missing: %s.", first)
		return all, stop, nil
	}
	b.peerFolder = peer.data
	return append(all, peer.contenders()...), stop, nil
}

// inTurns measures every system at every level, in turns.
func (b *bench) inTurns(ctx context.Context, systems []*contender) (map[string]samples, error) {
	results := map[string]samples{}
	for round := range b.rounds {
		for _, level := range b.levels {
			for i := range systems {
				c := systems[(i+round)%len(systems)]
				if err := b.awaitQuiet(ctx); err != nil {
					return nil, err
				}
				s, err := c.load(ctx, level, b.each)
				if err != nil {
					return nil, err
				}
				if results[c.name] == nil {
					results[c.name] = samples{}
				}
				results[c.name][level] = append(results[c.name][level], s)
				b.logf("round %d, at %d, %s: %.0f/s, p50 %.1f ms, others %.0f %%", round+1, level, c.name, s.perSecond, s.p50, s.others*100)
			}
		}
	}
	return results, nil
}

func (b *bench) describeSuite(d *document, systems []*contender, results map[string]samples) {
	d.text("Ten steps, each durable before the next. Pawl runs playbooks; its four processes are executor, planner, pool and the tool, an MCP server " +
		"over stdio; the in-process tool is a Go function within the one process, and does the same. Restate's tool is a function in its worker, which gives back its argument, called " +
		"over the HTTP ingress. Each caller waits for one task before it creates the next and sees all its events (Restate's: the result).")
	var names []string
	for _, c := range systems {
		names = append(names, c.name)
	}
	d.text("**Tasks per second and their time**, from the request to the last event, in ms.")
	d.table(append([]string{"system"}, b.heads("%d: tasks/s", "p50", "p99")...), b.rowsOf(names, results,
		perSecond, func(s sample) float64 { return s.p50 }, func(s sample) float64 { return s.p99 }))
	d.text("**CPU seconds per 1,000 steps.** The tool and the caller, which is this program, are not part of the sum.")
	d.table([]string{"system", "at", "sum", "of it", "tool", "caller"}, b.processRows(names, results, cpuFor))
	d.text("**Anonymous memory under load, MB**, the highest seen; the tool and the caller are not part of the sum.")
	d.table([]string{"system", "at", "sum", "of it", "tool", "caller"}, b.processRows(names, results, memoryFor))
	d.text("**The journal**: bytes of the file per task (ten steps), and transactions of the file, to which the log in front of it is applied.")
	d.table(append([]string{"system"}, b.heads("%d: bytes", "transactions")...), b.rowsOf(names[:3], results,
		func(s sample) float64 { return s.bytes }, func(s sample) float64 { return s.commits }))
}

// heads repeats heads for each level.
func (b *bench) heads(first string, others ...string) []string {
	var heads []string
	for _, level := range b.levels {
		heads = append(append(heads, fmt.Sprintf("at "+first, level)), others...)
	}
	return heads
}

func (b *bench) rowsOf(names []string, results map[string]samples, figures ...func(sample) float64) [][]string {
	var rows [][]string
	for _, name := range names {
		row := []string{name}
		for _, level := range b.levels {
			for _, f := range figures {
				row = append(row, figure(results[name].of(level, f)))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// processRows have a figure of each process.
func (b *bench) processRows(names []string, results map[string]samples, of func(string) func(sample) float64) [][]string {
	var rows [][]string
	for _, name := range names {
		s := results[name]
		for _, level := range b.levels {
			sum := 0.0
			var each []string
			for _, process := range s.own() {
				v := s.of(level, of(process))
				sum += v
				each = append(each, process+" "+figure(v))
			}
			rows = append(rows, []string{name, fmt.Sprint(level), figure(sum), strings.Join(each, ", "),
				figure(s.of(level, of(tool))), figure(s.of(level, of(caller)))})
		}
	}
	return rows
}

// sumOf is a figure over a system's own processes.
func (s samples) sumOf(level int, of func(string) func(sample) float64) float64 {
	sum := 0.0
	for _, process := range s.own() {
		sum += s.of(level, of(process))
	}
	return sum
}
