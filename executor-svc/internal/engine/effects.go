package engine

import (
	"context"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// split tells effects that may run beside the commit (planning changes nothing in the world) from those that must not
// start before it is durable. What only thinks and is abandoned later in the batch is not begun; what follows that keeps its
// place behind it.
func split(effects []flow.Effect) (early, late []flow.Effect) {
	abandoned := -1
	for i, e := range effects {
		if _, ok := e.(flow.Abandon); ok {
			abandoned = i
		}
	}
	for i, e := range effects {
		switch e.(type) {
		case flow.Call, flow.Attach, flow.StopCall, flow.Withdraw, flow.Abandon, flow.Release:
			late = append(late, e)
		default:
			switch {
			case abandoned < 0:
				early = append(early, e)
			case i > abandoned:
				late = append(late, e)
			}
		}
	}
	return early, late
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
			o.start(b, []flow.Effect{e})
		case stopped || o.cancelQueued():
			o.in.put(item{turn: o.turn, input: flow.Called{
				Ordinal: call.Ordinal, Attempt: call.Attempt, Outcome: commonv1.Outcome_OUTCOME_NOT_EXECUTED,
				Err: &storagev1.ErrorNote{ErrMsg: "the task was cancelled before the tool was called", Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED},
			}})
		case o.draining():
			o.move([]item{{turn: o.turn, input: flow.NotStarted{Ordinal: call.Ordinal}}})
		default:
			o.start(b, []flow.Effect{e})
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

func (o *owner) start(b *batch, effects []flow.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case flow.Abandon:
			o.turn, o.calling = o.turn+1, false
			o.cancel()
			o.ctx, o.cancel = context.WithCancel(o.e.hard)
		case flow.StopCall:
			o.beside(func(ctx context.Context) { o.session.StopCall(ctx, e.Reason) })
		case flow.Withdraw:
			o.beside(func(ctx context.Context) { o.session.Withdraw(ctx, e) })
		case flow.Release:
			o.session.Release(o.ctx) // the pool is told when the task is left
		default:
			// Another call is stopped anew where the run time is spent.
			switch e.(type) {
			case flow.Call:
				o.calling, o.following, o.lapsed = true, false, false
			case flow.Attach:
				o.calling, o.following, o.lapsed = true, true, false
			}
			o.effect(o.session.Prepare(o.task(b.state), o.history, e))
		}
	}
}

func (o *owner) effect(run func(context.Context, func(flow.Input))) {
	turn, ctx := o.turn, o.ctx
	o.effects.Add(1)
	do := func() {
		defer o.effects.Done()
		run(ctx, func(in flow.Input) { o.in.put(item{input: in, turn: turn}) })
	}
	select {
	case o.more <- do:
	default:
		go o.work(do)
	}
}

// work runs one effect after the other, until the owner leaves: a stack that has grown for one call need not grow for the next.
func (o *owner) work(do func()) {
	for do != nil {
		do()
		do = <-o.more
	}
}

// beside runs what bounds itself in time and has to be done also while the owner leaves.
func (o *owner) beside(fn func(context.Context)) {
	o.effects.Go(func() { fn(context.WithoutCancel(o.e.hard)) })
}
