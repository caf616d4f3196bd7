package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// How long a commit that the storage refused is tried again: what came back is not given up while the process lives.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// batch is what becomes one commit: the moves that everything at hand led to.
type batch struct {
	state   *storagev1.Checkpoint
	facts   []*storagev1.Fact
	effects []flow.Effect
	changed bool
	folded  []uint64
	answers []answer
	// abandoned says that the batch gives up what runs: what that still brings is dropped.
	abandoned bool
	// recorded holds the calls whose results it stores.
	recorded []flow.Called
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
	return o.store(b)
}

// store commits a batch and runs its effects. Planning goes on beside the commit; nothing that touches the world does.
func (o *owner) store(b *batch) bool {
	if !b.changed && len(b.folded) == 0 {
		early, late := split(b.effects)
		o.startAll(b, early, o.keep)
		o.startLate(b, late)
		return true
	}
	before := o.state
	t := o.transition(b)
	o.history.Add(t.Record)
	o.state = b.state
	early, late := split(b.effects)
	if !o.draining() {
		o.startAll(b, early, o.lend)
	}
	switch err := o.commit(t); {
	case errors.Is(err, journal.ErrInvalid):
		o.state = before
		return o.unstorable(b, err)
	case err != nil:
		return false
	}
	o.e.hub.publish(o.id, o.head, t.Checkpoint, t.Record)
	for _, c := range b.recorded {
		o.session.Recorded(c)
	}
	for _, a := range b.answers {
		o.e.answer(a.commandID, a.err)
	}
	o.startLate(b, late)
	return true
}

// unstorable ends a task with what can be stored, in place of what cannot.
func (o *owner) unstorable(b *batch, cause error) bool {
	o.log().Error("a transition cannot be stored", "error", cause)
	failed := &batch{state: o.state, folded: b.folded, answers: b.answers}
	o.fail(failed, "what happened cannot be stored: "+cause.Error())
	return failed.changed && o.store(failed)
}

// fold asks the flow what an item does to the task.
func (o *owner) fold(b *batch, i item) {
	if i.command != nil {
		o.foldCommand(b, i.command)
		return
	}
	if i.turn == anyTurn {
		i.turn = o.turn
	}
	if flow.EndsCall(i.input) && i.turn == o.turn && !b.abandoned {
		o.calling = false
		if c, ok := i.input.(flow.Called); ok {
			b.recorded = append(b.recorded, c)
		}
	}
	if i.turn != o.turn || b.abandoned || state.Ended(b.state.GetStatus()) {
		o.log().Debug("what an abandoned effect brought is dropped")
		return
	}
	next := flow.Clone(b.state)
	t, err := o.on(o.task(next), i.input)
	if err != nil {
		// A defect: the task must not hang, nor go on from a state that nobody understands.
		o.log().Error("the flow refused what came back", "error", err)
		o.fail(b, "the executor could not go on: "+err.Error())
		return
	}
	if _, ok := i.input.(flow.Lapsed); ok && stops(t) {
		o.lapsed = true // else the timer was set before the task's time began to run, and is set anew
	}
	b.add(next, t)
}

func stops(t flow.Transition) bool {
	return slices.ContainsFunc(t.Effects, func(e flow.Effect) bool { _, ok := e.(flow.StopCall); return ok })
}

func (o *owner) fail(b *batch, why string) {
	next := flow.Clone(b.state)
	t, err := o.flow.Fail(o.task(next), &storagev1.ErrorNote{ErrMsg: why, Reason: commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR})
	if err != nil {
		o.log().Error("the flow refused to fail", "error", err)
		return
	}
	b.add(next, t)
}

func (o *owner) on(t *flow.Task, in flow.Input) (flow.Transition, error) {
	if up, ok := in.(takenUp); ok {
		return o.flow.TakeUp(t, up.recovered)
	}
	return o.flow.On(t, in)
}

func (o *owner) foldCommand(b *batch, c *journal.Command) {
	b.folded = append(b.folded, c.No)
	next := flow.Clone(b.state)
	t, err := o.flow.On(o.task(next), flow.Command{Command: c.Command})
	b.answers = append(b.answers, answer{c.GetId(), err})
	if err == nil {
		b.add(next, t)
	}
}

func (b *batch) add(next *storagev1.Checkpoint, t flow.Transition) {
	b.effects = join(b.effects, t.Effects)
	for _, e := range t.Effects {
		if _, ok := e.(flow.Abandon); ok {
			b.abandoned = true
		}
	}
	if t.Unchanged {
		return
	}
	next.LastSeq += uint64(len(t.Facts))
	b.facts = join(b.facts, t.Facts)
	b.state, b.changed = next, true
}

// join returns both; where there is nothing yet, what there is is taken as it is.
func join[T any](all, more []T) []T {
	if len(all) == 0 {
		return slices.Clip(more)
	}
	return append(all, more...)
}

func (o *owner) transition(b *batch) journal.Transition {
	now := time.Now().UnixNano()
	if !b.changed {
		b.state = flow.Clone(b.state)
	}
	b.state.Rev++
	b.state.UpdateTime = now
	t := journal.Transition{
		TaskID: o.id, Epoch: o.epoch, Head: o.head, Checkpoint: b.state, Deadline: deadline(b.state), Folded: b.folded,
	}
	if len(b.facts) > 0 {
		t.Record = &storagev1.Record{Time: now, Usage: b.state.GetUsage(), Facts: b.facts}
	}
	return t
}

// commit returns once the transition is durable. A storage that fails is asked again until the process is told to stop:
// the outcome of a call must not be lost because a disk was full for a while.
func (o *owner) commit(t journal.Transition) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := o.e.deps.Journal.Commit(context.WithoutCancel(o.ctx), t)
		switch {
		case err == nil, errors.Is(err, journal.ErrInvalid):
			return err
		case errors.Is(err, journal.ErrStale) && o.isStored(t):
			return nil // an earlier try was stored although it was answered with an error
		case errors.Is(err, journal.ErrStale), errors.Is(err, journal.ErrNotFound), errors.Is(err, journal.ErrClosed):
			o.log().Error("the task was written by someone else; it is loaded again", "error", err)
			return err
		}
		o.log().Error("the journal cannot be written; trying again", "error", err, "pause", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-o.e.hard.Done():
			timer.Stop()
			return err
		}
	}
}

// isStored says whether a transition is in the journal. A storage that cannot be read for a while is asked again: taking that for a
// no would give up what came back.
func (o *owner) isStored(t journal.Transition) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		stored, err := o.e.deps.Journal.Peek(context.WithoutCancel(o.ctx), o.id)
		if err == nil {
			return proto.Equal(stored.Checkpoint, t.Checkpoint)
		}
		if errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrClosed) {
			return false
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-o.e.hard.Done():
			timer.Stop()
			return false
		}
	}
}
