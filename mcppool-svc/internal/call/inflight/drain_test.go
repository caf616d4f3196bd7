package inflight

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// With fetched set, Drain waits until the results of the calls were fetched or acknowledged.
func TestDrainWaitsForResultsToBeFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{}, pool)
		before := begin(t, l, "before")
		l.End(before, End{})
		finish(t, l, "acked", 1)
		running := begin(t, l, "running")
		done := make(chan struct{})
		go func() { defer close(done); l.Drain(context.Background(), true, errors.New("stopping")) }()
		ended := func() bool {
			synctest.Wait()
			select {
			case <-done:
				return true
			default:
				return false
			}
		}
		l.End(running, End{})
		l.Fetched(before)
		l.Fetched(before) // it counts once
		l.Ack("ann", []string{"acked"})
		if ended() {
			t.Error("Drain did not wait for a result that was not fetched")
		}
		l.Fetched(running)
		if !ended() {
			t.Error("Drain waits although all results were fetched")
		}
	})
}

func TestDrainHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{}, pool)
		finish(t, l, "c1", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		start := time.Now()
		l.Drain(ctx, true, errors.New("stopping"))
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("Drain took %v, want the time of its context", took)
		}
		start = time.Now()
		New(Config{}, pool).Drain(context.Background(), true, errors.New("stopping"))
		l = New(Config{}, pool)
		finish(t, l, "c1", 1)
		l.Drain(context.Background(), false, errors.New("stopping"))
		if time.Since(start) != 0 {
			t.Error("Drain waited without a result, or without fetched")
		}
	})
}
