package main

import (
	"context"
	"runtime"
	"time"
)

// What counts as a quiet machine while none of the measured systems has work, and how long one look takes.
const (
	quietShare = 0.15
	quietLook  = 250 * time.Millisecond
)

// awaitQuiet waits until the rest of the machine does little, as long as there is patience left for this run.
func (b *bench) awaitQuiet(ctx context.Context) error {
	for {
		busy, err := busyShare(ctx)
		if err != nil || busy < quietShare || b.patience <= 0 {
			return err
		}
		b.patience -= quietLook
	}
}

// busyShare is how much of the machine's cores is used, over a short while.
func busyShare(ctx context.Context) (float64, error) {
	before, err := machineSeconds()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case <-time.After(quietLook):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := machineSeconds()
	return (after - before) / time.Since(began).Seconds() / float64(runtime.NumCPU()), err
}
