package engine

import (
	"context"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/stack"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// split separates actions that may start before the commit, such as planning, from actions that must not. It drops planning that the batch
// abandons. All actions after an Abandon are late.
func split(actions []flow.Action) (early, late []flow.Action) {
	abandoned := -1
	for i, a := range actions {
		if _, ok := a.(flow.Abandon); ok {
			abandoned = i
		}
	}
	for i, a := range actions {
		switch {
		case needsCommit(a), i > abandoned && abandoned >= 0:
			late = append(late, a)
		case abandoned < 0:
			early = append(early, a)
		}
	}
	return early, late
}

// needsCommit reports whether an action must not start before the commit.
func needsCommit(a flow.Action) bool {
	switch a.(type) {
	case flow.Call, flow.Attach, flow.StopCall, flow.Withdraw, flow.Abandon:
		return true
	}
	return false
}

// startAfterCommit starts the actions that had to wait for the commit. If a call was cancelled meanwhile, or the engine is stopping, it records
// instead that the call was not made.
func (o *owner) startAfterCommit(b *batch, actions []flow.Action) {
	stopped := stopsCall(flow.Transition{Actions: actions})
	for _, a := range actions {
		call, isCall := a.(flow.Call)
		_, isAttach := a.(flow.Attach)
		switch {
		case isAttach && !o.slot: // the task attaches once it has a slot
		case isCall && (stopped || o.cancelQueued()):
			o.in.add(item{generation: o.generation, input: flow.Called{
				Ordinal: call.Ordinal, Attempt: call.Attempt, Outcome: commonv1.Outcome_OUTCOME_NOT_EXECUTED,
				Err: &storagev1.ErrorNote{ErrMsg: "the task was cancelled before the tool was called", Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED},
			}})
		case isCall && o.draining():
			o.apply([]item{{generation: o.generation, input: flow.NotStarted{Ordinal: call.Ordinal}}})
		default:
			o.startAction(b, a, true)
		}
	}
}

// cancelQueued reports whether a cancellation arrived while the intent was committed.
func (o *owner) cancelQueued() bool {
	if !o.in.commandsNoted() {
		return false
	}
	inbox, err := o.e.deps.Journal.Inbox(o.ctx, o.id)
	return err == nil && slices.ContainsFunc(inbox, isCancel) // after an error, a cancellation is applied later and stops the running call
}

func (o *owner) startAll(b *batch, actions []flow.Action) {
	for _, a := range actions {
		o.startAction(b, a, false)
	}
}

// startAction starts an action in a new goroutine, which then runs the owner if no other goroutine does. If sameGoroutine is true, the
// action becomes o.next instead: the current goroutine runs it after it exits the owner, so that a usual step needs no new goroutine.
func (o *owner) startAction(b *batch, a flow.Action, sameGoroutine bool) {
	switch a := a.(type) {
	case flow.Abandon:
		o.generation, o.calling = o.generation+1, false
		o.cancel()
		o.newGeneration()
		return
	case flow.StopCall:
		o.actions.Go(func() { o.session.StopCall(context.WithoutCancel(o.base), a.Reason) })
		return
	case flow.Withdraw:
		o.actions.Go(func() { o.session.Withdraw(context.WithoutCancel(o.base), a) })
		return
	case flow.Call:
		o.calling, o.attached, o.callStopped = true, false, false
	case flow.Attach:
		o.calling, o.attached, o.callStopped = true, true, false
	}
	run, ctx, emit := o.session.Prepare(o.ctx, o.task(b.state), o.history, a), o.ctx, o.emit
	o.actions.Add(1)
	action := func() {
		run(ctx, emit)
		o.actions.Done()
	}
	if sameGoroutine { // an earlier o.next gets a new goroutine
		action, o.next = o.next, action
	}
	if action != nil {
		go o.runActions(action)
	}
}

// runActions runs an action, then the owner if no other goroutine does, then the action that the owner's run returns, and so on.
func (o *owner) runActions(action func()) {
	stack.Reserve()
	for action != nil {
		action()
		if !o.in.enter() {
			return
		}
		action = o.run()
	}
}

// newGeneration makes the context and the emit function of the generation's actions.
func (o *owner) newGeneration() {
	generation := o.generation
	o.ctx, o.cancel = context.WithCancel(o.base)
	o.emit = func(in flow.Input) {
		i := item{input: in, generation: generation}
		switch in.(type) {
		case flow.Progress, flow.McpTask, flow.Text:
			o.deliver(i)
		default: // no delivery yet: the next Text, or runActions at the end of the action, runs the owner
			o.in.add(i)
		}
	}
}
