package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// benchmarkName is the Go benchmark of the executor alone, with a planner and a pool that answer at once. It has
// sub-benchmarks `<variant>/at-N` for each number of tasks at once, which report steps/s.
const benchmarkName = "BenchmarkExecutor"

// variant is one way in which the executor works.
type variant struct{ name, what string }

// duel is a variant of the executor and the loop that writes the same.
type duel struct {
	variant
	shape          shape
	loop           *boltLoop
	bare, executor map[int][]float64 // steps per second
}

// executorAlone compares the executor with the store that it stands on.
func (b *bench) executorAlone(ctx context.Context, d *document) (err error) {
	program, err := b.buildExecutorBenchmark(ctx)
	if err != nil {
		return err
	}
	var duels []*duel
	defer func() {
		for _, one := range duels {
			err = errors.Join(err, one.loop.close())
		}
	}()
	for _, v := range []variant{{"ahead=true", "all steps known at the start"}, {"ahead=false", "the planner is asked before each step"}} {
		one := &duel{variant: v, bare: map[int][]float64{}, executor: map[int][]float64{}}
		if one.shape, err = b.benchmarkShape(ctx, program, v); err != nil {
			return err
		}
		b.logf("%s: a task is %+v", v.what, one.shape)
		if one.loop, err = b.startBoltLoop(one.shape); err != nil {
			return err
		}
		duels = append(duels, one)
	}
	for range min(b.rounds, 3) {
		for _, level := range b.levels {
			for _, one := range duels {
				if err := b.round(ctx, program, one, level); err != nil {
					return err
				}
			}
		}
	}
	b.describeExecutor(d, duels)
	return nil
}

// buildExecutorBenchmark builds the tests of the executor's module.
func (b *bench) buildExecutorBenchmark(ctx context.Context) (string, error) {
	program := filepath.Join(b.work, "executor.test")
	if _, err := b.command(ctx, b.root, "go", "test", "-c", "-o", program, "./executor-svc/executor"); err != nil {
		return "", err
	}
	list, err := b.command(ctx, b.work, program, "-test.list", "^"+benchmarkName+"$")
	if err == nil && !strings.Contains(list, benchmarkName) {
		err = fmt.Errorf("there is no %s in executor-svc/executor", benchmarkName)
	}
	return program, err
}

// benchmarkEnv makes the benchmark use the disk that is measured, and collect garbage as the server does.
func benchmarkEnv(dir string) []string {
	gogc := os.Getenv("GOGC")
	if gogc == "" {
		gogc = "300"
	}
	return []string{"TMPDIR=" + dir, "GOGC=" + gogc}
}

func benchmarkArgs(v variant, level, tasks int) []string {
	return []string{
		"-test.run", "^$", "-test.bench", fmt.Sprintf("^%s$/^%s$/^at-%d$", benchmarkName, v.name, level),
		"-test.benchtime", fmt.Sprintf("%dx", tasks),
	}
}

// benchmarkShape stops the benchmark in the middle and reads what is in its journal.
func (b *bench) benchmarkShape(ctx context.Context, program string, v variant) (s shape, err error) {
	dir, err := b.folder()
	if err != nil {
		return s, err
	}
	p, err := b.start("benchmark", benchmarkEnv(dir), program, benchmarkArgs(v, 32, 1_000_000)...)
	if err != nil {
		return s, err
	}
	defer p.kill()
	var path string
	err = p.await(ctx, func(context.Context) bool {
		path = find(dir, "journal.db")
		meta, err := readMeta(path)
		return err == nil && meta.used > 1<<20
	})
	if err != nil {
		return s, err
	}
	copied := filepath.Join(dir, "frozen.db")
	// A file that is copied at an instant when nothing runs is what a crash would leave: bbolt can read that.
	if err := p.freeze(); err != nil {
		return s, err
	}
	if err := copyFile(path, copied); err != nil {
		return s, err
	}
	tasks, err := readTasks(copied)
	if err != nil {
		return s, err
	}
	return shapeOf(tasks)
}

// freeze stops all threads of a process where they are.
func (p *process) freeze() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.await(context.Background(), func(context.Context) bool {
		f, err := statFields(p.pid)
		return err == nil && f[0] == "T"
	})
}

// find is the first file of a name below a folder; empty where there is none.
func find(dir, name string) (found string) {
	// What vanishes while it is looked at is not what is looked for.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// round measures the loop and then the executor at a level.
func (b *bench) round(ctx context.Context, program string, one *duel, level int) error {
	if err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	bare := &contender{name: "bare bbolt loop", run: one.loop.run}
	s, err := bare.load(ctx, level, b.each)
	if err != nil {
		return err
	}
	one.bare[level] = append(one.bare[level], s.perSecond*stepsPerTask)
	// As many tasks as the loop would write in half the time: a time cannot be given, since the benchmark would guess
	// the number from its first operations, which wait for nothing.
	tasks := max(3*level, int(s.perSecond*b.each.Seconds()/2))
	dir, err := b.folder()
	if err != nil {
		return err
	}
	p, err := b.start("benchmark", benchmarkEnv(dir), program, benchmarkArgs(one.variant, level, tasks)...)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(startTimeout):
		p.kill()
		return fmt.Errorf("the benchmark took more than %v for %d tasks", startTimeout, tasks)
	case <-ctx.Done():
		p.kill()
		return ctx.Err()
	}
	rate, ok := metric(p.said(), fmt.Sprintf("%s/%s/at-%d", benchmarkName, one.name, level), "steps/s")
	if !ok {
		return fmt.Errorf("the benchmark reported no steps/s: %s", p.said())
	}
	one.executor[level] = append(one.executor[level], rate)
	b.logf("at %d, %s: loop %.0f steps/s, executor %.0f", level, one.what, s.perSecond*stepsPerTask, rate)
	return nil
}

// metric finds a value that a benchmark reported.
func metric(out, benchmark, unit string) (float64, bool) {
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(benchmark) + `(-\d+)?\s.*?\s([0-9.e+]+) ` + regexp.QuoteMeta(unit) + `(\s|$)`)
	m := line.FindStringSubmatch(out)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[2], 64)
	return v, err == nil
}

func (b *bench) describeExecutor(d *document, duels []*duel) {
	d.text("The executor with a planner and a pool in its process that answer at once, over direct calls. The loop writes the same bytes in as many " +
		"commits, with the same group commit, and does nothing else; what it writes was read from the journal of the executor, stopped in the middle.")
	head := []string{"steps per second"}
	for _, level := range b.levels {
		head = append(head, fmt.Sprintf("at %d", level))
	}
	for _, one := range duels {
		s := one.shape
		d.text("**%s%s**: a task of ten steps is %d commits, a head of %d bytes and %d of indexes once, a checkpoint of %d replaced in each, and %d of "+
			"records in all, keys included.", strings.ToUpper(one.what[:1]), one.what[1:], s.commits, s.head, s.index, s.checkpoint, s.records)
		rows := [][]string{{"bare bbolt loop"}, {"executor alone"}, {"executor ÷ loop (target ≥ 0.70 ×)"}}
		for _, level := range b.levels {
			limit, own := median(one.bare[level]), median(one.executor[level])
			rows[0], rows[1], rows[2] = append(rows[0], figure(limit)), append(rows[1], figure(own)), append(rows[2], ratio(own, limit))
		}
		d.table(head, rows)
	}
}
