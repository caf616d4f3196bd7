package engine

import (
	"context"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/stack"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// split separates questions that may start before the commit from actions that must not. It drops the questions of a lane that the batch
// abandons later; the actions after an Abandon are late.
func split(actions []flow.LaneAction) (early, late []flow.LaneAction) {
	for i, a := range actions {
		ask, isAsk := a.Action.(flow.Ask)
		switch {
		case !isAsk || ask.AfterCommit || abandons(actions[:i], a.Lane):
			late = append(late, a)
		case !abandons(actions[i:], a.Lane):
			early = append(early, a)
		}
	}
	return early, late
}

// abandons reports whether actions abandon a lane.
func abandons(actions []flow.LaneAction, lane uint32) bool {
	return slices.ContainsFunc(actions, func(a flow.LaneAction) bool {
		_, ok := a.Action.(flow.Abandon)
		return ok && a.Lane == lane
	})
}

// startAfterCommit starts the actions that had to wait for the commit. If a call was cancelled meanwhile, or the engine is stopping, it records
// instead that the call was not made; an earlier call that was cancelled gets no answers.
func (o *owner) startAfterCommit(b *batch, actions []flow.LaneAction) {
	for _, a := range actions {
		call, isCall := a.Action.(flow.Call)
		if attach, ok := a.Action.(flow.Attach); ok && stopsCall(actions, a.Lane) {
			attach.Stopping = true
			a.Action = attach
		}
		switch {
		case isCall && (stopsCall(actions, a.Lane) || o.cancelQueued(a.Lane)):
			o.in.add(item{lane: a.Lane, generation: o.lane(a.Lane).generation, input: flow.Called{
				Ordinal: call.Ordinal, Attempt: call.Attempt, Outcome: commonv1.Outcome_OUTCOME_NOT_EXECUTED,
				Err: &storagev1.ErrorNote{ErrMsg: "the task was cancelled before the tool was called", Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED},
			}})
		case isCall && o.draining():
			o.apply([]item{{lane: a.Lane, generation: o.lane(a.Lane).generation, input: flow.NotStarted{Ordinal: call.Ordinal}}})
		default:
			o.startAction(b, a, true)
		}
	}
}

// stopsCall reports whether actions stop the call of a lane.
func stopsCall(actions []flow.LaneAction, lane uint32) bool {
	return slices.ContainsFunc(actions, func(a flow.LaneAction) bool {
		_, ok := a.Action.(flow.StopCall)
		return ok && a.Lane == lane
	})
}

// cancelQueued reports whether a cancellation of the task, or of the lane's subtask, arrived while the intent was committed.
func (o *owner) cancelQueued(lane uint32) bool {
	if !o.in.commandsNoted() {
		return false
	}
	inbox, err := o.e.deps.Journal.Inbox(o.base, o.id)
	return err == nil && slices.ContainsFunc(inbox, func(c journal.Command) bool { // after an error, a cancellation is applied later and stops the running call
		return isCancel(c) && (c.GetCancel().GetSubtaskId() == "" || c.GetCancel().GetSubtaskId() == flow.LaneOf(o.state, lane).GetSubtaskId())
	})
}

func (o *owner) startAll(b *batch, actions []flow.LaneAction) {
	for _, a := range actions {
		o.startAction(b, a, false)
	}
}

// startAction starts an action in a new goroutine, which then runs the owner if no other goroutine does. If sameGoroutine is true, the
// action becomes o.next instead: the current goroutine runs it after it exits the owner, so that a usual step needs no new goroutine. Without a
// slot, only actions that end something start, and no question while the engine stops; the next owner resumes the others.
func (o *owner) startAction(b *batch, a flow.LaneAction, sameGoroutine bool) {
	lane := a.Lane
	switch a := a.Action.(type) {
	case flow.Abandon:
		o.abandon(b, lane)
		return
	case flow.StopCall:
		o.actions.Go(func() { o.session.StopCall(context.WithoutCancel(o.base), lane, a.Reason) })
		return
	case flow.Withdraw:
		o.actions.Go(func() { o.session.Withdraw(context.WithoutCancel(o.base), a) })
		return
	}
	_, isAsk := a.Action.(flow.Ask)
	if !o.slot || isAsk && o.draining() {
		return
	}
	l := o.lane(a.Lane)
	if _, l.attached = a.Action.(flow.Attach); !isAsk {
		l.calling, l.callStopped = true, false
	}
	run, ctx, emit := o.session.Prepare(l.ctx, o.task(b.state), o.history, a), l.ctx, l.emit
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
