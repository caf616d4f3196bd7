package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// batch collects the transitions that become one commit.
type batch struct {
	// state is the owner's state until a transition changes it, then a copy that only the batch uses.
	state   *storagev1.Checkpoint
	facts   []*storagev1.Fact
	actions []flow.LaneAction
	changed bool
	// posts and summary go to the topic whose message the task answers.
	posts   []*storagev1.TopicFact
	summary *storagev1.TopicSummary
	// applied holds the numbers of the inbox commands in the batch; results holds their results.
	applied []uint64
	results []commandResult
	// called holds the calls whose outcomes are in the batch.
	called []flow.Called
}

type commandResult struct {
	commandID string
	err       error
}

// apply applies items to the task, commits the result and runs its actions. It returns false if the owner must release the task.
func (o *owner) apply(items []item) bool {
	if len(items) == 0 {
		return true
	}
	return o.store(o.collect(items))
}

// collect applies items to a copy of the task's state.
func (o *owner) collect(items []item) *batch {
	b := &batch{state: o.state}
	for n, i := range items {
		if i.command != nil {
			o.applyCommand(b, i.command)
		} else if err := o.applyInput(b, i); err != nil {
			// A defect: the task must not continue from an undefined state.
			o.log().Error("the flow refused an input", "error", err)
			b = o.collect(items[:n])
			o.failTask(b, "the executor cannot continue the task: "+err.Error())
		}
	}
	return b
}

// store commits a batch and runs its actions: planning starts before the commit, actions that change anything outside start after it. It
// returns false if the owner must release the task.
func (o *owner) store(b *batch) bool {
	early, late := split(b.actions)
	if b.isLarge() {
		early, late = nil, b.actions // the outputs can be read only once they are durable
	}
	if !b.changed && len(b.applied) == 0 {
		o.startAll(b, early)
		o.startAfterCommit(b, late)
		return true
	}
	before := o.state
	t := o.transition(b)
	o.history.Add(t.Record)
	o.state = b.state
	o.startAll(b, early)
	switch err := o.commit(t); {
	case errors.Is(err, journal.ErrInvalid):
		o.state = before
		return o.failUnstorable(b, err)
	case err != nil:
		return false
	}
	o.e.hub.publish(o.id, o.head, t.Checkpoint, t.Record)
	for _, c := range b.called {
		o.session.Recorded(context.WithoutCancel(o.base), c)
	}
	for _, a := range b.results {
		o.e.reply(a.commandID, a.err)
	}
	o.startAfterCommit(b, late)
	return true
}

// isLarge reports whether the batch holds an output that the history does not keep.
func (b *batch) isLarge() bool {
	return slices.ContainsFunc(b.facts, func(f *storagev1.Fact) bool { return len(f.GetStepOutput()) >= history.LargeOutput })
}

// failUnstorable fails a task whose transition can never be stored.
func (o *owner) failUnstorable(b *batch, cause error) bool {
	o.log().Error("a transition cannot be stored", "error", cause)
	failed := &batch{state: o.state, applied: b.applied, results: b.results}
	o.failTask(failed, "the change of the task cannot be stored: "+cause.Error())
	return failed.changed && o.store(failed)
}

// applyInput adds the flow's transition for an input to the batch. After an error, the batch's state is undefined.
func (o *owner) applyInput(b *batch, i item) (err error) {
	current := o.current(i) && (i.generation == noAction || !abandons(b.actions, i.lane))
	if current && flow.EndsCall(i.input) {
		o.lane(i.lane).calling = false
		if c, ok := i.input.(flow.Called); ok {
			b.called = append(b.called, c)
		}
	}
	if !current || state.Ended(b.state.GetStatus()) {
		o.log().Debug("the late result of a dropped action is ignored")
		return nil
	}
	next := b.state
	if !b.changed || i.generation == noAction { // else the batch has its own copy, which the result of an action changes in place
		next = proto.CloneOf(b.state)
	}
	var t flow.Transition
	if r, ok := i.input.(resume); ok {
		t, err = o.flow.Resume(o.task(next), r.recovered)
	} else {
		t, err = o.flow.Apply(o.task(next), i.lane, i.input)
	}
	if err != nil {
		return err
	}
	if _, ok := i.input.(flow.Timeout); ok {
		for _, a := range t.Actions {
			if stopsCall(t.Actions, a.Lane) {
				o.lane(a.Lane).callStopped = true // else the timeout came early, and setTimer sets the timer again
			}
		}
	}
	b.add(next, t)
	return nil
}

func (o *owner) failTask(b *batch, why string) {
	next := proto.CloneOf(b.state)
	t, err := o.flow.Fail(o.task(next), &storagev1.ErrorNote{ErrMsg: why, Reason: commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR})
	if err != nil {
		o.log().Error("the flow refused to fail", "error", err)
		return
	}
	b.add(next, t)
}

// applyCommand adds the flow's transition for a command to the batch, or its error to the results.
func (o *owner) applyCommand(b *batch, c *journal.Command) {
	b.applied = append(b.applied, c.No)
	next := proto.CloneOf(b.state)
	t, err := o.flow.Apply(o.task(next), 0, flow.Command{Command: c.Command})
	b.results = append(b.results, commandResult{c.GetId(), err})
	if err == nil {
		b.add(next, t)
	}
}

func (b *batch) add(next *storagev1.Checkpoint, t flow.Transition) {
	b.actions = append(b.actions, t.Actions...)
	if t.Unchanged {
		return
	}
	next.LastSeq += uint64(len(t.Facts))
	b.facts = append(b.facts, t.Facts...)
	b.posts = append(b.posts, t.Posts...)
	if t.Summary != nil {
		b.summary = t.Summary
	}
	b.state, b.changed = next, true
}

// transition completes the state of a batch and returns the batch as a transition of the journal.
func (o *owner) transition(b *batch) journal.Transition {
	now := time.Now().UnixNano()
	if b.changed {
		b.state.UpdateTime = now
	} else { // a refused command leaves the inbox
		b.state = proto.CloneOf(b.state)
	}
	b.state.Rev++
	t := journal.Transition{
		TaskID: o.id, Epoch: o.epoch, Head: o.head, Checkpoint: b.state, Deadline: deadline(b.state), Applied: b.applied,
	}
	if len(b.facts) > 0 {
		t.Record = &storagev1.Record{Time: now, Usage: b.state.GetUsage(), Facts: b.facts}
	}
	if chat := o.head.GetChat(); chat != nil && (len(b.posts) > 0 || b.summary != nil) {
		t.Post = &journal.Post{TopicID: chat.GetTopicId(), Now: time.Unix(0, now), Facts: b.posts, Summary: b.summary, Answers: chat.GetMessageSeq()}
	}
	return t
}

// commit returns once the transition is durable. While the storage fails, it retries until a shutdown ends the running actions, so that the
// outcome of a call is not lost. Once the backoff reaches noticePause, senders get an error: their command is stored, but not yet applied.
func (o *owner) commit(t journal.Transition) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := o.e.deps.Journal.Commit(context.WithoutCancel(o.base), t)
		switch {
		case err == nil:
			o.e.storage.set(nil)
			return nil
		case errors.Is(err, journal.ErrInvalid):
			return err
		case errors.Is(err, journal.ErrStale) && o.isStored(t):
			o.e.storage.set(nil)
			return nil // an earlier attempt stored it, but returned an error
		case errors.Is(err, journal.ErrStale), errors.Is(err, journal.ErrNotFound), errors.Is(err, journal.ErrClosed):
			o.log().Error("this owner can no longer commit; it releases the task", "error", err)
			return err
		}
		o.log().Error("the journal cannot be written; retrying", "error", err, "pause", pause)
		if pause >= noticePause {
			o.e.storage.set(err)
		}
		if !sleep(pause, o.e.ctx.Done()) {
			return err
		}
	}
}

// isStored reports whether a transition is in the journal. It retries while the storage cannot be read.
func (o *owner) isStored(t journal.Transition) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		stored, err := o.e.deps.Journal.Load(context.WithoutCancel(o.base), o.id)
		if err == nil {
			return proto.Equal(stored.Checkpoint, t.Checkpoint)
		}
		if errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrClosed) || !sleep(pause, o.e.ctx.Done()) {
			return false
		}
	}
}
