package engine

import (
	"context"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/runner"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// split tells effects that may run beside the commit (planning changes nothing in the world) from those that must not
// start before it is durable. What only thinks and is abandoned later in the batch is not begun; what follows that keeps its
// place behind it.
func split(effects []flow.Effect) (early, late []flow.Effect) {
	if len(effects) == 1 { // as usual
		if waits(effects[0]) {
			return nil, effects
		}
		return effects, nil
	}
	abandoned := -1
	for i, e := range effects {
		if _, ok := e.(flow.Abandon); ok {
			abandoned = i
		}
	}
	for i, e := range effects {
		switch {
		case waits(e), i > abandoned && abandoned >= 0:
			late = append(late, e)
		case abandoned < 0:
			early = append(early, e)
		}
	}
	return early, late
}

// waits says whether an effect must not start before the commit.
func waits(e flow.Effect) bool {
	switch e.(type) {
	case flow.Call, flow.Attach, flow.StopCall, flow.Withdraw, flow.Abandon:
		return true
	}
	return false
}

// startLate starts what had to wait for the commit. A call that was cancelled meanwhile, or that a stopping executor
// would have to cut off, is not begun, and that is recorded.
func (o *owner) startLate(b *batch, effects []flow.Effect) {
	stopped := false
	for _, e := range effects {
		if _, ok := e.(flow.StopCall); ok {
			stopped = true
		}
	}
	for _, e := range effects {
		call, ok := e.(flow.Call)
		_, attach := e.(flow.Attach)
		switch {
		case attach && !o.slot: // the task goes on once it has one
		case !ok:
			o.start(b, e, o.keep)
		case stopped || o.cancelQueued():
			o.in.add(item{turn: o.turn, input: flow.Called{
				Ordinal: call.Ordinal, Attempt: call.Attempt, Outcome: commonv1.Outcome_OUTCOME_NOT_EXECUTED,
				Err: &storagev1.ErrorNote{ErrMsg: "the task was cancelled before the tool was called", Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED},
			}})
		case o.draining():
			o.move([]item{{turn: o.turn, input: flow.NotStarted{Ordinal: call.Ordinal}}})
		default:
			o.start(b, e, o.keep)
		}
	}
}

// cancelQueued looks for a cancellation that came while the intent was committed.
func (o *owner) cancelQueued() bool {
	if !o.in.isPoked() {
		return false
	}
	inbox, err := o.e.deps.Journal.Inbox(o.ctx, o.id)
	if err != nil {
		return false // it is folded in later, and stops the running call
	}
	for _, c := range inbox {
		if c.GetCancel() != nil {
			return true
		}
	}
	return false
}

func (o *owner) startAll(b *batch, effects []flow.Effect, begin func(job)) {
	for _, e := range effects {
		o.start(b, e, begin)
	}
}

// start starts an effect; begin says by whom.
func (o *owner) start(b *batch, e flow.Effect, begin func(job)) {
	switch e := e.(type) {
	case flow.Abandon:
		o.turn, o.calling = o.turn+1, false
		o.cancel()
		o.beginTurn()
	case flow.StopCall:
		o.beside(func(ctx context.Context) { o.session.StopCall(ctx, e.Reason) })
	case flow.Withdraw:
		o.beside(func(ctx context.Context) { o.session.Withdraw(ctx, e) })
	default:
		// Another call is stopped anew where the run time is spent.
		switch e.(type) {
		case flow.Call:
			o.calling, o.following, o.lapsed = true, false, false
		case flow.Attach:
			o.calling, o.following, o.lapsed = true, true, false
		}
		begin(o.effect(o.session.Prepare(o.task(b.state), o.history, e)))
	}
}

// beginTurn makes what the effects of a turn have in common.
func (o *owner) beginTurn() {
	turn := o.turn
	o.ctx, o.cancel = context.WithCancel(o.e.hard)
	o.emit = func(in flow.Input) {
		i := item{input: in, turn: turn}
		switch in.(type) {
		case flow.Progress, flow.Tasked, flow.Text:
			o.put(i)
		default: // it ends the effect
			o.in.add(i)
		}
	}
}

// effect runs an effect. The goroutine that brought the last of it goes on with the task.
func (o *owner) effect(run runner.Run) job {
	ctx, emit := o.ctx, o.emit
	o.effects.Add(1)
	return func() job {
		run(ctx, emit)
		o.effects.Done()
		if !o.in.enter() {
			return nil
		}
		return o.onward
	}
}

// beside runs what bounds itself in time and has to be done also while the owner leaves.
func (o *owner) beside(fn func(context.Context)) {
	o.effects.Go(func() { fn(context.WithoutCancel(o.e.hard)) })
}
