package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// suite measures whole systems in turns, so that what else happens on the machine meets them alike.
func (b *bench) suite(ctx context.Context, d *document) {
	systems := b.systems(ctx, d)
	before := b.peerBytes(ctx)
	results := b.inTurns(ctx, systems)
	after := b.peerBytes(ctx)
	b.describeSuite(d, systems, results)
	if runs := results[peerTS].runs() + results[peerGo].runs(); runs > 0 {
		d.text("Restate's folder, which it trims, grew by %.0f bytes per run, over the %d runs of both SDKs.", (after-before)/float64(runs), runs)
	}
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
	b.targets(d, results)
}

// systems starts what is measured.
func (b *bench) systems(ctx context.Context, d *document) (all []*contender) {
	for _, l := range []layout{fourProcesses, oneProcess, inProcess} {
		all = append(all, b.startPawl(ctx, l).contender(l.echo()))
	}
	if !b.peer {
		return all
	}
	err := b.try(func() {
		peer := b.startRestate(ctx)
		b.addGoWorker(ctx, peer)
		b.peerFolder = peer.data
		all = append(all, peer.contenders()...)
	})
	if err != nil {
		b.logf("Restate: %v", err)
		d.text("Restate could not be installed or started here, so its figures are missing: %s.", firstLine(err))
	}
	return all
}

// inTurns measures every system at every level, in turns.
func (b *bench) inTurns(ctx context.Context, systems []*contender) map[string]samples {
	results := map[string]samples{}
	for _, c := range systems {
		results[c.name] = samples{}
	}
	for round := range b.rounds {
		for _, level := range b.levels {
			for i := range systems {
				c := systems[(i+round)%len(systems)]
				b.awaitQuiet(ctx)
				s := c.load(ctx, level, b.each)
				results[c.name][level] = append(results[c.name][level], s)
				b.logf("round %d, at %d, %s: %.0f/s, p50 %.1f ms, others %.0f %%", round+1, level, c.name, s.perSecond, s.p50, s.others*100)
			}
		}
	}
	return results
}

func (b *bench) describeSuite(d *document, systems []*contender, results map[string]samples) {
	d.text("Ten steps, each durable before the next. Pawl runs playbooks; its four processes are executor, planner, pool and the tool, an MCP server " +
		"over stdio; the in-process tool is a Go function within the one process, and does the same. Restate's tool is a function in its worker, which gives back its argument, called " +
		"over the HTTP ingress. Each caller waits for one task before it creates the next and sees all its events (Restate's: the result).")
	d.text("**Tasks per second and their time**, from the request to the last event, in ms.")
	b.levelTable(d, systems, results, []string{"at %d: tasks/s", "p50", "p99"},
		perSecond, func(s sample) float64 { return s.p50 }, func(s sample) float64 { return s.p99 })
	d.text("**CPU seconds per 1,000 steps.** The tool and the caller, which is this program, are not part of the sum.")
	b.processTable(d, systems, results, cpuFor)
	d.text("**Anonymous memory under load, MB**, the highest seen; the tool and the caller are not part of the sum.")
	b.processTable(d, systems, results, memoryFor)
	d.text("**The journal**: bytes of the file per task (ten steps), and transactions of the file, to which the log in front of it is applied.")
	b.levelTable(d, systems[:3], results, []string{"at %d: bytes", "transactions"},
		func(s sample) float64 { return s.bytes }, func(s sample) float64 { return s.commits })
}

// levelTable has a column for each level and figure.
func (b *bench) levelTable(d *document, systems []*contender, results map[string]samples, heads []string, figures ...func(sample) float64) {
	head := []string{"system"}
	for _, level := range b.levels {
		head = append(append(head, fmt.Sprintf(heads[0], level)), heads[1:]...)
	}
	var rows [][]string
	for _, c := range systems {
		row := []string{c.name}
		for _, level := range b.levels {
			for _, f := range figures {
				row = append(row, figure(results[c.name].of(level, f)))
			}
		}
		rows = append(rows, row)
	}
	d.table(head, rows)
}

// processTable has a figure of each process, a row for each system and level.
func (b *bench) processTable(d *document, systems []*contender, results map[string]samples, of func(string) func(sample) float64) {
	var rows [][]string
	for _, c := range systems {
		s := results[c.name]
		for _, level := range b.levels {
			var each []string
			for _, process := range s.own() {
				each = append(each, process+" "+figure(s.of(level, of(process))))
			}
			rows = append(rows, []string{c.name, fmt.Sprint(level), figure(s.sumOf(level, of)), strings.Join(each, ", "),
				figure(s.of(level, of(tool))), figure(s.of(level, of(caller)))})
		}
	}
	d.table([]string{"system", "at", "sum", "of it", "tool", "caller"}, rows)
}

// targets compares with what the design asks for. The peer is the faster of its SDKs at each level.
func (b *bench) targets(d *document, results map[string]samples) {
	d.text("**Beside what the design asks for.** Restate is the faster of its SDKs at that level.")
	var rows [][]string
	add := func(what, target, value string, reached bool) {
		said := map[bool]string{true: "yes", false: "no"}[reached]
		if target == none {
			said = none
		}
		rows = append(rows, []string{what, value, target, said})
	}
	for _, level := range b.levels {
		peer := max(results[peerTS].of(level, perSecond), results[peerGo].of(level, perSecond))
		if peer == 0 {
			continue
		}
		four := 1.5
		if level == 1 {
			four = 1.1
		}
		for _, t := range []struct {
			layout layout
			want   float64
		}{{fourProcesses, four}, {oneProcess, 0}, {inProcess, 3}} {
			got, target := results[t.layout.name].of(level, perSecond), none
			if t.want > 0 {
				target = fmt.Sprintf("≥ %.1f ×", t.want)
			}
			add(fmt.Sprintf("%s, at %d, beside Restate", t.layout.name, level), target, ratio(got, peer), got >= t.want*peer)
		}
	}
	four := results[fourProcesses.name]
	for _, level := range b.levels[1:] {
		cpu := four.sumOf(level, cpuFor)
		add(fmt.Sprintf("four processes, CPU s per 1,000 steps at %d, without the tool", level), "≤ 0.22", figure(cpu), cpu <= 0.22)
	}
	for _, level := range b.levels {
		memory := four.sumOf(level, memoryFor)
		add(fmt.Sprintf("four processes, anonymous memory at %d, MB", level), "≤ 115", figure(memory), memory <= 115)
	}
	bytes := four.of(1, func(s sample) float64 { return s.bytes })
	add("bytes of the journal per task, at 1", "≤ 8,192", figure(bytes), bytes <= 8192)
	d.table([]string{"what", "measured", "target", "reached"}, rows)
}
