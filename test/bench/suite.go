package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// suite measures all of Pawl, in its layouts, and the peer.
func (b *bench) suite(ctx context.Context, d *document) {
	systems := b.systems(ctx, d)
	b.inTurns(ctx, systems, b.levels)
	b.describeSuite(d, systems)
	var shares []float64
	for _, c := range systems {
		for level := range c.samples {
			for _, s := range c.quieter(level) {
				shares = append(shares, s.others*100)
			}
		}
	}
	d.text("The rest of the machine (other programs, and the kernel for all) took %.0f %% of the cores in the median measurement and %.0f %% in the worst; "+
		"where that is much, figures are too low.", median(shares), slices.Max(shares))
	b.targets(d, systems)
}

// systems starts the measured systems: Pawl's layouts, and then the peer's workers.
func (b *bench) systems(ctx context.Context, d *document) (all []*contender) {
	for _, l := range layouts {
		all = append(all, b.startPawl(ctx, l).contender(stepsPerTask, l.echo()))
	}
	if !b.peer {
		return all
	}
	err := b.try(func() {
		peer := b.startRestate(ctx)
		b.addGoWorker(ctx, peer)
		all = append(all, peer.contenders...)
	})
	if err != nil {
		b.logf("Restate: %v", err)
		d.text("Restate could not be installed or started here, so its figures are missing: %s.", firstLine(err))
	}
	return all
}

func (b *bench) describeSuite(d *document, systems []*contender) {
	d.text("Ten steps, each durable before the next. Pawl runs playbooks; its four processes are executor, planner, pool and the tool, an MCP server " +
		"over stdio; the in-process tool is a Go function within the one process, and does the same. Restate's tool is a function in its worker, which gives back its argument, called " +
		"over the HTTP ingress. Each caller waits for one task before it creates the next and sees all its events (Restate's: the result).")
	d.text("**Tasks per second and their time**, from the request to the last event, in ms.")
	b.levelTable(d, systems, []string{"at %d: tasks/s", "p50", "p99"}, perSecond, p50, func(s sample) float64 { return s.p99 })
	d.text("**CPU seconds per 1,000 steps.** The tool and the caller, which is this program, are not part of the sum.")
	b.processTable(d, systems, cpuFor)
	d.text("**Anonymous memory under load, MB**, the highest seen; the tool and the caller are not part of the sum.")
	b.processTable(d, systems, memoryFor)
	d.text("**The journal**: bytes of the file per task (ten steps), and transactions of the file, to which the log in front of it is applied.")
	b.levelTable(d, systems[:len(layouts)], []string{"at %d: bytes", "transactions"},
		func(s sample) float64 { return s.bytes }, func(s sample) float64 { return s.commits })
}

// levelTable adds a table with a row for each system, and a column for each level and figure.
func (b *bench) levelTable(d *document, systems []*contender, heads []string, figures ...func(sample) float64) {
	head := []string{"system"}
	for _, level := range b.levels {
		head = append(append(head, fmt.Sprintf(heads[0], level)), heads[1:]...)
	}
	var rows [][]string
	for _, c := range systems {
		row := []string{c.name}
		for _, level := range b.levels {
			for _, f := range figures {
				row = append(row, figure(c.of(level, f)))
			}
		}
		rows = append(rows, row)
	}
	d.table(head, rows)
}

// processTable adds a table with a row for each system and level, which shows a figure of each process.
func (b *bench) processTable(d *document, systems []*contender, of func(process string) func(sample) float64) {
	var rows [][]string
	for _, c := range systems {
		for _, level := range b.levels {
			var each []string
			for _, p := range c.processes {
				each = append(each, p.name+" "+figure(c.of(level, of(p.name))))
			}
			rows = append(rows, []string{c.name, fmt.Sprint(level), figure(c.sumOf(level, of)), strings.Join(each, ", "),
				figure(c.of(level, of(tool))), figure(c.of(level, of(caller)))})
		}
	}
	d.table([]string{"system", "at", "sum", "of it", "tool", "caller"}, rows)
}

// targets compares the results with the targets of the design. At each level, the peer is its faster SDK.
func (b *bench) targets(d *document, systems []*contender) {
	d.text("**Beside what the design asks for.** Restate is the faster of its SDKs at that level; a ratio is the median of the rounds' ratios.")
	var rows [][]string
	add := func(what, value, target string, reached bool) {
		answer := map[bool]string{true: "yes", false: "no"}[reached]
		if target == none {
			answer = none
		}
		rows = append(rows, []string{what, value, target, answer})
	}
	four := systems[0]
	for _, level := range b.levels {
		var peer *contender // nil if Restate was not measured
		for _, c := range systems[len(layouts):] {
			if peer == nil || c.of(level, perSecond) > peer.of(level, perSecond) {
				peer = c
			}
		}
		for i, want := range []float64{map[bool]float64{true: 1.1, false: 1.5}[level == 1], 0, 3} { // for each of layouts; 0 is no target
			target := none
			if want > 0 {
				target = fmt.Sprintf("≥ %.1f ×", want)
			}
			if peer != nil {
				got := systems[i].beside(peer, level, perSecond)
				add(fmt.Sprintf("%s, at %d, beside Restate", systems[i].name, level), ratio(got, 1), target, got >= want)
			}
		}
	}
	for _, level := range b.levels {
		if cpu := four.sumOf(level, cpuFor); level > 1 {
			add(fmt.Sprintf("four processes, CPU s per 1,000 steps at %d, without the tool", level), figure(cpu), "≤ 0.22", cpu <= 0.22)
		}
		memory := four.sumOf(level, memoryFor)
		add(fmt.Sprintf("four processes, anonymous memory at %d, MB", level), figure(memory), "≤ 115", memory <= 115)
	}
	bytes := four.of(1, func(s sample) float64 { return s.bytes })
	add("bytes of the journal per task, at 1", figure(bytes), "≤ 8,192", bytes <= 8192)
	d.table([]string{"what", "measured", "target", "reached"}, rows)
}
