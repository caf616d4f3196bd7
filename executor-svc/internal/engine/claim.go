package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"pawl.dev/executor-svc/internal/journal"
)

const (
	// claimBatch bounds the tasks that are claimed at once.
	claimBatch = 64
	// pollInterval is how often the claim loop looks for due tasks without a wake-up.
	pollInterval = 5 * time.Second
	// sweepBatch bounds the tasks that are deleted before a pause.
	sweepBatch = 64
	// sweepPause is the pause after a sweep that deleted what was old, and sweepInterval the one after a sweep that found nothing, or failed.
	sweepPause, sweepInterval = time.Second, time.Minute
)

// claimSoon wakes the claim loop.
func (e *Engine) claimSoon() {
	select {
	case e.due <- struct{}{}:
	default:
	}
}

// claimLoop claims due tasks until ctx is done.
func (e *Engine) claimLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	healthy := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.due:
		case <-timer.C:
		}
		timer.Reset(e.claimDue(ctx))
		err := e.StorageError()
		switch {
		case err != nil && healthy:
			e.deps.Log.Error("the journal cannot be written; tasks wait, and commands are refused", "error", err)
		case err == nil && !healthy:
			e.deps.Log.Info("the journal can be written again")
		}
		healthy = err == nil
	}
}

// claimDue starts owners for the tasks that are due now, and returns how long the claim loop may wait for a wake-up.
func (e *Engine) claimDue(ctx context.Context) time.Duration {
	for {
		found, err := e.deps.Journal.Claim(ctx, journal.ClaimRequest{Now: time.Now(), Slots: e.cfg.MaxRunning, Max: claimBatch, Lease: e.cfg.Lease})
		switch {
		case errors.Is(err, journal.ErrClosed), ctx.Err() != nil:
			return pollInterval
		case err != nil:
			e.deps.Log.Error("due tasks could not be claimed; retrying", "error", err)
			return retryDelay
		}
		for _, c := range found.Claims {
			e.startOwner(c)
		}
		if len(found.Claims) == claimBatch {
			continue
		}
		if next := found.Next; !next.IsZero() {
			return min(pollInterval, max(time.Millisecond, time.Until(next)))
		}
		return pollInterval
	}
}

// renewLoop renews the owners' claims, and ends the owners whose claims were lost.
func (e *Engine) renewLoop(ctx context.Context) {
	tick := time.NewTicker(e.cfg.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		claims := e.claims()
		lost, err := e.deps.Journal.Renew(ctx, claims, time.Now(), e.cfg.Lease)
		if err != nil && ctx.Err() == nil {
			e.deps.Log.Error("the claims could not be renewed; they last until their leases end", "error", err)
		}
		for _, c := range claims {
			if slices.Contains(lost, c.TaskID) {
				e.claimLost(c)
			}
		}
	}
}

func (e *Engine) claims() []journal.Claim {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]journal.Claim, 0, len(e.owners))
	for _, o := range e.owners {
		all = append(all, journal.Claim{TaskID: o.id, Epoch: o.epoch, Slot: o.slot})
	}
	return all
}

// claimLost ends an owner that lost its claim. The journal refuses its later commits by their epoch.
func (e *Engine) claimLost(c journal.Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o := e.owners[c.TaskID]; o != nil && o.epoch == c.Epoch {
		o.log().Error("the claim was lost; the task is left to its next owner")
		o.lost.Store(true)
		o.wake()
	}
}

// startOwner starts an owner for a claim.
func (e *Engine) startOwner(c journal.Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return // the claim ends with the process
	}
	o := newOwner(e, c)
	e.owners[c.TaskID] = o
	e.wg.Add(1)
	go o.start()
}

// removeOwner removes an owner and gives up its claim. reclaim reports that the task needs another claim:
// removeOwner then waits first, so that a task that cannot be read is not claimed in a busy loop.
func (e *Engine) removeOwner(o *owner, reclaim bool) {
	if reclaim {
		sleep(retryDelay, o.e.draining)
	}
	e.mu.Lock()
	if e.owners[o.id] == o {
		delete(e.owners, o.id)
	}
	e.mu.Unlock()
	if err := e.deps.Journal.Yield(context.WithoutCancel(e.ctx), o.id, o.epoch); err != nil && !errors.Is(err, journal.ErrClosed) {
		o.log().Error("the claim could not be given up; it lasts until its lease ends", "error", err)
	}
	e.claimSoon() // a slot is free, a command may have arrived meanwhile, and the task may have a deadline
}

// sweepLoop deletes tasks and topics past their retention.
func (e *Engine) sweepLoop(ctx context.Context) {
	if e.cfg.Retention <= 0 {
		return
	}
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	for swept := (sweeps{reported: time.Now()}); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(e.sweep(ctx, &swept))
	}
}

// sweeps counts what sweeps deleted since the last report.
type sweeps struct {
	tasks, topics int
	reported      time.Time
}

// sweep deletes a batch of tasks and topics past their retention, and returns the pause until the next one.
func (e *Engine) sweep(ctx context.Context, swept *sweeps) (pause time.Duration) {
	began := time.Now()
	before := began.Add(-e.cfg.Retention)
	tasks, taskErr := e.deps.Journal.Sweep(ctx, before, sweepBatch)
	topics, topicErr := e.deps.Journal.SweepTopics(ctx, before, sweepBatch)
	swept.tasks, swept.topics = swept.tasks+tasks, swept.topics+topics
	switch err := errors.Join(taskErr, topicErr); {
	case err != nil && ctx.Err() == nil:
		e.deps.Log.Error("tasks and topics past their retention could not be deleted", "error", err)
		pause = sweepInterval
	case max(tasks, topics) == sweepBatch:
		pause = time.Since(began) // running tasks have the journal for half of the time
	case tasks+topics > 0:
		pause = sweepPause
	default:
		pause = sweepInterval
	}
	if now := time.Now(); swept.tasks+swept.topics > 0 && now.Sub(swept.reported) >= sweepInterval {
		e.deps.Log.Info("deleted tasks that ended and topics that were archived long ago", "tasks", swept.tasks, "topics", swept.topics, "retention", e.cfg.Retention)
		*swept = sweeps{reported: now}
	}
	return pause
}
