package main

import "fmt"

// none stands where there is nothing to say.
const none = "–"

// targets compares with what the design asks for. The peer is the faster of its SDKs at each level.
func (b *bench) targets(d *document, results map[string]samples) {
	d.text("**Beside what the design asks for.** Restate is the faster of its SDKs at that level.")
	var rows [][]string
	add := func(what, target string, value string, reached bool) {
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
		four, one, built := 1.5, 0.0, 3.0
		if level == 1 {
			four = 1.1
		}
		for _, t := range []struct {
			name string
			want float64
		}{{fourProcesses, four}, {oneProcess, one}, {inProcess, built}} {
			got := results[t.name].of(level, perSecond)
			target := none
			if t.want > 0 {
				target = fmt.Sprintf("≥ %.1f ×", t.want)
			}
			add(fmt.Sprintf("%s, at %d, beside Restate", t.name, level), target, ratio(got, peer), got >= t.want*peer)
		}
	}
	for _, level := range b.levels[1:] {
		cpu := results[fourProcesses].sumOf(level, cpuFor)
		add(fmt.Sprintf("four processes, CPU s per 1,000 steps at %d, without the tool", level), "≤ 0.22", figure(cpu), cpu <= 0.22)
	}
	for _, level := range b.levels {
		memory := results[fourProcesses].sumOf(level, memoryFor)
		add(fmt.Sprintf("four processes, anonymous memory at %d, MB", level), "≤ 115", figure(memory), memory <= 115)
	}
	bytes := results[fourProcesses].of(1, func(s sample) float64 { return s.bytes })
	add("bytes of the journal per task, at 1", "≤ 8,192", figure(bytes), bytes <= 8192)
	d.table([]string{"what", "measured", "target", "reached"}, rows)
}
