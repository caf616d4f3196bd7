package engine

import (
	"context"
	"errors"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// How long a commit that the storage refused is tried again: what came back is not given up while the process lives.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// batch is what becomes one commit: the moves that everything in the queue led to.
type batch struct {
	state   *storagev1.Checkpoint
	facts   []*storagev1.Fact
	effects []flow.Effect
	changed bool
	folded  uint64
	answers []answer
}

type answer struct {
	commandID string
	err       error
}

// move folds items into the task, commits, and runs the effects. False means that the owner must leave.
func (o *owner) move(items []item) bool {
	if len(items) == 0 {
		return true
	}
	b := &batch{state: o.state}
	for _, i := range items {
		o.fold(b, i)
	}
	if !b.changed && b.folded == 0 {
		o.start(b, b.effects)
		return true
	}
	t := o.transition(b)
	o.history.Add(t.Record)
	o.state = b.state
	early, late := split(b.effects)
	if !o.draining() {
		o.start(b, early)
	}
	if !o.commit(t) {
		return false
	}
	o.e.hub.notify(o.id)
	for _, a := range b.answers {
		o.e.answer(a.commandID, a.err)
	}
	o.start(b, late)
	return true
}

// fold asks the flow what an item does to the task.
func (o *owner) fold(b *batch, i item) {
	if i.command != nil {
		o.foldCommand(b, i.command)
		return
	}
	if i.turn != o.turn {
		return
	}
	if _, ok := i.input.(flow.Called); ok {
		o.calling = false
	}
	next := clone(b.state)
	t, err := o.on(o.task(next), i.input)
	if err != nil {
		// A defect: the task must not hang, nor go on from a state that nobody understands.
		o.log.Error("the flow refused what came back", "input", i.input, "error", err)
		next = clone(b.state)
		t, err = o.flow.Fail(o.task(next), &storagev1.ErrorNote{
			ErrMsg: "the executor could not go on: " + err.Error(), Reason: commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
		})
		if err != nil {
			o.log.Error("the flow refused to fail", "error", err)
			return
		}
	}
	b.add(next, t)
}

func (o *owner) on(t *flow.Task, in flow.Input) (flow.Transition, error) {
	if _, ok := in.(takenUp); ok {
		return o.flow.TakeUp(t)
	}
	return o.flow.On(t, in)
}

// foldCommand folds a command in once, whether it came by the inbox, the queue or both.
func (o *owner) foldCommand(b *batch, c *journal.Command) {
	if c.No <= o.seen {
		return
	}
	o.seen, b.folded = c.No, c.No
	next := clone(b.state)
	t, err := o.flow.On(o.task(next), flow.Command{Command: c.Command})
	b.answers = append(b.answers, answer{c.GetId(), err})
	if err == nil {
		b.add(next, t)
	}
}

func (b *batch) add(next *storagev1.Checkpoint, t flow.Transition) {
	b.effects = append(b.effects, t.Effects...)
	if t.Unchanged {
		return
	}
	for _, f := range t.Facts {
		f.Status = next.GetStatus()
	}
	next.LastSeq += uint64(len(t.Facts))
	b.facts = append(b.facts, t.Facts...)
	b.state, b.changed = next, true
}

func (o *owner) transition(b *batch) journal.Transition {
	now := time.Now().UnixNano()
	if !b.changed {
		b.state = clone(b.state)
	}
	b.state.Rev++
	b.state.UpdateTime = now
	t := journal.Transition{TaskID: o.id, Head: o.head, Checkpoint: b.state, FoldedThrough: b.folded}
	if len(b.facts) > 0 {
		t.Record = &storagev1.Record{Time: now, Usage: b.state.GetUsage(), Facts: b.facts}
	}
	return t
}

// commit returns once the transition is durable. A storage that fails is asked again until the process is told to stop:
// the outcome of a call must not be lost because a disk was full for a while.
func (o *owner) commit(t journal.Transition) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := o.e.deps.Journal.Commit(context.WithoutCancel(o.ctx), t)
		switch {
		case err == nil:
			return true
		case errors.Is(err, journal.ErrStale), errors.Is(err, journal.ErrNotFound), errors.Is(err, journal.ErrClosed):
			o.log.Error("the task is written by someone else; leaving it", "error", err)
			return false
		}
		o.log.Error("the journal cannot be written; trying again", "error", err, "pause", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-o.ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// split tells effects that may run beside the commit (planning changes nothing in the world) from those that must not
// start before it is durable.
func split(effects []flow.Effect) (early, late []flow.Effect) {
	for _, e := range effects {
		switch e.(type) {
		case flow.Call, flow.StopCall, flow.Abandon, flow.Release:
			late = append(late, e)
		default:
			early = append(early, e)
		}
	}
	return early, late
}

func (o *owner) start(b *batch, effects []flow.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case flow.Abandon:
			o.turn, o.calling = o.turn+1, false
			o.cancel()
			o.ctx, o.cancel = context.WithCancel(o.e.hard)
		case flow.StopCall:
			o.beside(o.session.StopCall)
		case flow.Release:
			o.beside(o.session.Release)
		default:
			_, call := e.(flow.Call)
			o.calling = o.calling || call
			o.effect(o.session.Prepare(o.task(b.state), o.history, e))
		}
	}
}

func (o *owner) effect(run func(context.Context, func(flow.Input))) {
	turn, ctx := o.turn, o.ctx
	o.effects.Go(func() {
		run(ctx, func(in flow.Input) { o.in.put(item{input: in, turn: turn}) })
	})
}

// beside runs what bounds itself in time and has to be done also while the owner leaves.
func (o *owner) beside(fn func(context.Context)) {
	o.effects.Go(func() { fn(context.WithoutCancel(o.e.hard)) })
}
