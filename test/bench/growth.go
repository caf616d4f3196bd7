package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// growth compares what one more step costs early and late in a task. Tasks of some reading steps stop at a writing one,
// where their last records and their checkpoint are read from the journal.
func (b *bench) growth(ctx context.Context, d *document) error {
	var rows [][]string
	for _, steps := range []int{5, 200, 500} {
		s, err := b.afterSteps(ctx, steps)
		if err != nil {
			return fmt.Errorf("a task of %d steps: %w", steps, err)
		}
		rows = append(rows, []string{fmt.Sprint(steps), figure(s.lately()), fmt.Sprint(s.checkpoint), figure(s.lately() + float64(s.checkpoint))})
	}
	d.text("Bytes of a commit, keys included, behind so many steps: the records of the last steps, and the checkpoint of the task, which waits there. " +
		"Target: constant.")
	d.table([]string{"at step", "record", "checkpoint", "together"}, rows)
	return nil
}

// lately is the mean size of the last records before those with which the task came to wait.
func (s *stored) lately() float64 {
	const last, waits = 8, 2
	to := max(len(s.sizes)-waits, 1)
	from := max(to-last, 0)
	sum := 0
	for _, size := range s.sizes[from:to] {
		sum += size
	}
	return float64(sum) / float64(to-from)
}

// afterSteps runs a task until it waits behind so many steps, and reads it.
func (b *bench) afterSteps(ctx context.Context, steps int) (_ *stored, err error) {
	p, err := b.startFour(ctx)
	if err != nil {
		return nil, err
	}
	plan := playbook(steps, "t/echo", "text: hello") +
		fmt.Sprintf("  - {tool: t/append, input: {path: %q, line: x}}\n", filepath.Join(b.work, "never.txt"))
	err = p.untilWaiting(ctx, request(plan))
	if err := errors.Join(err, p.stop()); err != nil {
		return nil, err
	}
	tasks, err := readTasks(p.journal)
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		if len(t.sizes) >= steps {
			return t, nil
		}
	}
	return nil, errLayout
}
