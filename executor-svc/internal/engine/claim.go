package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
)

const (
	// claimBatch is how many tasks are claimed at once.
	claimBatch = 64
	// pollEvery is how often due tasks are looked for that nobody told of.
	pollEvery = 5 * time.Second
	// sweepEvery is how often ended tasks are looked for that are kept no longer.
	sweepEvery = 10 * time.Minute
	// sweepBatch is how many of them are deleted at once, so that others are not held up.
	sweepBatch = 100
)

// nudge has due tasks looked for.
func (e *Engine) nudge() {
	select {
	case e.due <- struct{}{}:
	default:
	}
}

// claimNow has the caller itself take up what is due, so that nobody need be woken for it; what it cannot do is left to claim. It is
// not for what has got a deadline: when to look for that, claim alone knows.
func (e *Engine) claimNow() {
	if !e.claiming.Load() {
		e.nudge()
		return
	}
	found, err := e.claimSome(e.hard)
	for _, c := range found.Claims {
		e.own(c)
	}
	if err != nil || len(found.Claims) == claimBatch {
		e.nudge()
	}
}

func (e *Engine) claimSome(ctx context.Context) (journal.Claims, error) {
	return e.deps.Journal.Claim(ctx, journal.ClaimRequest{Now: time.Now(), Slots: e.cfg.MaxRunning, Max: claimBatch, Lease: e.cfg.Lease})
}

// claim takes up what is due until ctx is done.
func (e *Engine) claim(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.due:
		case <-timer.C:
		}
		timer.Reset(e.claimDue(ctx))
	}
}

// claimDue owns what is due now and returns when to look again unless somebody says so before.
func (e *Engine) claimDue(ctx context.Context) time.Duration {
	for {
		found, err := e.claimSome(ctx)
		switch {
		case errors.Is(err, journal.ErrClosed), ctx.Err() != nil:
			return pollEvery
		case err != nil:
			e.deps.Log.Error("looking for tasks that are due; trying again", "error", err)
			return againAfter
		}
		for _, c := range found.Claims {
			e.own(c)
		}
		if len(found.Claims) == claimBatch {
			continue
		}
		if next := found.Next; !next.IsZero() {
			return min(pollEvery, max(time.Millisecond, time.Until(next)))
		}
		return pollEvery
	}
}

// renew makes the owners' claims last, and ends those that were lost: somebody else may have their tasks.
func (e *Engine) renew(ctx context.Context) {
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
			e.deps.Log.Error("renewing the claims; they last until their leases end", "error", err)
		}
		for _, c := range claims {
			if slices.Contains(lost, c.TaskID) {
				e.lose(c)
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

// lose ends an owner whose task may be another's. What it still commits is refused by its epoch.
func (e *Engine) lose(c journal.Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o := e.owners[c.TaskID]; o != nil && o.epoch == c.Epoch {
		o.log().Error("the claim was lost; the task is left to its next owner")
		o.lost.Store(true)
		o.poke()
	}
}

// own starts an owner for a claim.
func (e *Engine) own(c journal.Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return // the claim ends with the process
	}
	o := newOwner(e, c)
	e.owners[c.TaskID] = o
	e.wg.Add(1)
	go o.work(o.run)
}

// leave takes an owner out. Where the task could not be left in peace, it is claimed again after a while.
func (e *Engine) leave(o *owner, again bool) {
	if again && !o.draining() {
		timer := time.NewTimer(againAfter)
		select {
		case <-timer.C:
		case <-e.draining:
			timer.Stop()
		}
	}
	e.mu.Lock()
	if e.owners[o.id] == o {
		delete(e.owners, o.id)
	}
	e.mu.Unlock()
	if err := e.deps.Journal.Yield(context.WithoutCancel(e.hard), o.id, o.epoch); err != nil && !errors.Is(err, journal.ErrClosed) {
		o.log().Error("giving up the claim; it ends by itself", "error", err)
	}
	switch {
	case o.draining():
	case !again && o.state != nil && state.Ended(o.state.GetStatus()):
		e.claimNow() // a slot is free
	default:
		e.nudge() // a slot is free, something may have come while it was leaving, and it may have a deadline
	}
}

// sweep deletes tasks that ended long ago.
func (e *Engine) sweep(ctx context.Context) {
	if e.cfg.Retention <= 0 {
		return
	}
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		n, err := e.deps.Journal.Sweep(ctx, time.Now().Add(-e.cfg.Retention), sweepBatch)
		switch {
		case err != nil && ctx.Err() == nil:
			e.deps.Log.Error("deleting tasks that are kept no longer", "error", err)
			timer.Reset(sweepEvery)
		case n == sweepBatch:
			timer.Reset(time.Second)
		default:
			timer.Reset(sweepEvery)
		}
		if n > 0 {
			e.deps.Log.Info("deleted tasks that ended long ago", "count", n, "retention", e.cfg.Retention)
		}
	}
}
