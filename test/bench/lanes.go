package main

import (
	"context"
	"fmt"
	"strings"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	// laneCount is the number of lanes of the task, and of the tasks beside it.
	laneCount = 8
	// stepsPerLane is the number of tool calls of a lane. With fewer, the beginning and the end of a task would count for more.
	stepsPerLane = 25
)

// parallelSteps returns the request for a task with laneCount branches of stepsPerLane equal steps each.
func parallelSteps(tool, input string) *executorv1.CreateTaskRequest {
	call := fmt.Sprintf("          - {tool: %s, input: {%s}}\n", tool, input)
	return request("steps:\n  - parallel:\n" + strings.Repeat("      - steps:\n"+strings.Repeat(call, stepsPerLane), laneCount))
}

// lanes compares one task with several lanes with as many tasks of one lane, with the same processes.
func (b *bench) lanes(ctx context.Context, d *document) {
	d.text("The same tool calls in the same processes, in turns: %d tasks at once, each with %d steps, one after the other, and one task with %d branches of "+
		"%d steps each, which run in parallel. CPU is without the tool and the caller.", laneCount, stepsPerLane, laneCount, stepsPerLane)
	var rows, targets [][]string
	for _, l := range []layout{fourProcesses, inProcess} {
		b.scope(func() {
			p := b.startPawl(ctx, l)
			tasks := p.contender(stepsPerLane, equalSteps(stepsPerLane, l.tool, "text: hello"))
			lanes := p.contender(laneCount*stepsPerLane, parallelSteps(l.tool, "text: hello"))
			tasks.name, lanes.name = fmt.Sprintf("%s: %d tasks", l.name, laneCount), fmt.Sprintf("%s: %d lanes", l.name, laneCount)
			for round := range b.rounds {
				if round%2 == 1 {
					b.measureAt(ctx, lanes, 1, round)
				}
				b.measureAt(ctx, tasks, laneCount, round)
				if round%2 == 0 {
					b.measureAt(ctx, lanes, 1, round)
				}
			}
			ofTasks, ofLanes := laneFiguresOf(tasks, laneCount), laneFiguresOf(lanes, 1)
			rows = append(rows, ofTasks.row(tasks.name), ofLanes.row(lanes.name))
			targets = append(targets, []string{l.name, ratio(ofLanes.perSecond, ofTasks.perSecond), "≥ 0.9 ×", ratio(ofLanes.cpu, ofTasks.cpu), ratio(ofLanes.bytes, ofTasks.bytes)})
		})
	}
	d.table([]string{"", "steps/s", "CPU s per 1,000 steps", "bytes of the journal per step"}, rows)
	d.table([]string{fmt.Sprintf("%d lanes, of %d tasks", laneCount, laneCount), "steps/s", "target", "CPU", "bytes"}, targets)
}

// laneFigures are the figures of a contender in steps.
type laneFigures struct{ perSecond, cpu, bytes float64 }

func laneFiguresOf(c *contender, level int) laneFigures {
	steps := float64(c.steps)
	return laneFigures{
		perSecond: c.of(level, perSecond) * steps, cpu: c.sumOf(level, cpuFor), bytes: c.of(level, func(s sample) float64 { return s.bytes }) / steps,
	}
}

func (f laneFigures) row(name string) []string {
	return []string{name, figure(f.perSecond), figure(f.cpu), figure(f.bytes)}
}
