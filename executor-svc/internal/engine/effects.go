package engine

import (
	"context"
	"pawl.dev/services/stack"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// split separates effects that may run beside the commit, because planning changes nothing in the world, from those that must not start
// before it is durable. Planning that the batch abandons is dropped; effects after an Abandon stay behind it.
func split(effects []flow.Effect) (early, late []flow.Effect) {
	abandoned := -1
	for i, e := range effects {
		if _, ok := e.(flow.Abandon); ok {
			abandoned = i
		}
	}
	for i, e := range effects {
		switch {
		case needsCommit(e), i > abandoned && abandoned >= 0:
			late = append(late, e)
		case abandoned < 0:
			early = append(early, e)
		}
	}
	return early, late
}

// needsCommit reports whether an effect must not start before the commit.
func needsCommit(e flow.Effect) bool {
	switch e.(type) {
	case flow.Call, flow.Attach, flow.StopCall, flow.Withdraw, flow.Abandon:
		return true
	}
	return false
}

// startAfterCommit starts the effects that had to wait for the commit. A call that was cancelled meanwhile, or that a stopping engine
// would cut off, is not started, and that is recorded.
func (o *owner) startAfterCommit(b *batch, effects []flow.Effect) {
	stopped := stopsCall(flow.Transition{Effects: effects})
	for _, e := range effects {
		call, isCall := e.(flow.Call)
		_, isAttach := e.(flow.Attach)
		switch {
		case isAttach && !o.slot: // the task continues once it has a slot
		case isCall && (stopped || o.cancelQueued()):
			o.in.add(item{turn: o.turn, input: flow.Called{
				Ordinal: call.Ordinal, Attempt: call.Attempt, Outcome: commonv1.Outcome_OUTCOME_NOT_EXECUTED,
				Err: &storagev1.ErrorNote{ErrMsg: "the task was cancelled before the tool was called", Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED},
			}})
		case isCall && o.draining():
			o.apply([]item{{turn: o.turn, input: flow.NotStarted{Ordinal: call.Ordinal}}})
		default:
			o.startEffect(b, e, true)
		}
	}
}

// cancelQueued looks for a cancellation that arrived while the intent was committed.
func (o *owner) cancelQueued() bool {
	if !o.in.commandsNoted() {
		return false
	}
	inbox, err := o.e.deps.Journal.Inbox(o.ctx, o.id)
	if err != nil {
		return false // it is applied later, and stops the running call
	}
	for _, c := range inbox {
		if c.GetCancel() != nil {
			return true
		}
	}
	return false
}

func (o *owner) startAll(b *batch, effects []flow.Effect) {
	for _, e := range effects {
		o.startEffect(b, e, false)
	}
}

// startEffect starts an effect in a new goroutine, which then runs the owner if no other does. If sameGoroutine is true, the effect
// becomes o.next instead: the current goroutine runs it after it leaves the owner, so that a usual step needs no new goroutine.
func (o *owner) startEffect(b *batch, e flow.Effect, sameGoroutine bool) {
	switch e := e.(type) {
	case flow.Abandon:
		o.turn, o.calling = o.turn+1, false
		o.cancel()
		o.newTurn()
		return
	case flow.StopCall:
		o.effects.Go(func() { o.session.StopCall(context.WithoutCancel(o.base), e.Reason) })
		return
	case flow.Withdraw:
		o.effects.Go(func() { o.session.Withdraw(context.WithoutCancel(o.base), e) })
		return
	case flow.Call:
		o.calling, o.attached, o.stopped = true, false, false
	case flow.Attach:
		o.calling, o.attached, o.stopped = true, true, false
	}
	run, ctx, emit := o.session.Prepare(o.ctx, o.task(b.state), o.history, e), o.ctx, o.emit
	o.effects.Add(1)
	effect := func() {
		run(ctx, emit)
		o.effects.Done()
	}
	if sameGoroutine { // an effect that was there already gets a goroutine
		effect, o.next = o.next, effect
	}
	if effect != nil {
		go o.work(effect)
	}
}

// work runs an effect, then the owner if no other goroutine does, then the effect that it leaves, and so on.
func (o *owner) work(effect func()) {
	stack.Reserve()
	for effect != nil {
		effect()
		if !o.in.enter() {
			return
		}
		effect = o.run()
	}
}

// newTurn makes the context and the emit function of the turn's effects.
func (o *owner) newTurn() {
	turn := o.turn
	o.ctx, o.cancel = context.WithCancel(o.base)
	o.emit = func(in flow.Input) {
		i := item{input: in, turn: turn}
		switch in.(type) {
		case flow.Progress, flow.McpTask, flow.Text:
			o.deliver(i)
		default: // the effect ends, and its goroutine runs the owner
			o.in.add(i)
		}
	}
}
