package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/runner"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// loadBytes is how much of a task's record is read at once.
const loadBytes = 1 << 20

// owner is the one turn that may write a task now. It lives while the task runs, and leaves when it waits or has ended.
type owner struct {
	e   *Engine
	id  string
	in  *queue
	log *slog.Logger

	head    *storagev1.TaskHead
	flow    flow.Flow
	session *runner.Session
	// state is never changed in place: each move works on a copy, so that effects may read what they were given.
	state   *storagev1.Checkpoint
	history *history.Log
	// interrupted says that the loaded task was running: its flow has to be asked how it goes on.
	interrupted bool

	// turn counts Abandon; calling says that a tool call has not come back.
	turn    int
	calling bool
	cancel  context.CancelFunc
	ctx     context.Context
	effects sync.WaitGroup
}

func newOwner(e *Engine, id string) *owner {
	return &owner{e: e, id: id, in: newQueue(), log: e.deps.Log.With("task_id", id)}
}

// run owns the task until it waits or has ended. A task that another writer changed under it is loaded again.
func (o *owner) run() {
	o.ctx, o.cancel = context.WithCancel(o.e.hard)
	again := o.own()
	o.cancel()
	o.effects.Wait()
	o.e.leave(o, again)
}

// own says whether the task has to be owned again: it was not left in peace.
func (o *owner) own() (again bool) {
	if !o.load() {
		o.in.takePoke() // there is nobody to look into the inbox
		return false
	}
	slot, again := o.admitted()
	if !slot {
		return again && !o.draining()
	}
	defer func() { <-o.e.slots }()
	for {
		items, err := o.gather()
		switch {
		case err != nil:
			o.log.Error("reading the inbox", "error", err)
			return true
		case len(items) > 0:
			if !o.move(items) {
				return true
			}
			continue
		case o.draining():
			o.drain()
			return false
		case o.idle():
			return false
		}
		select {
		case <-o.in.wakeup:
		case <-o.e.draining:
		}
	}
}

// load reads the task and its history; a storage that fails for a while is asked again.
func (o *owner) load() bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := o.read()
		switch {
		case err == nil:
			return true
		case errors.Is(err, journal.ErrClosed), errors.Is(err, journal.ErrNotFound), o.ctx.Err() != nil:
			return false
		}
		o.log.Error("loading the task; trying again", "error", err, "pause", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-o.e.draining:
			timer.Stop()
			return false
		}
	}
}

func (o *owner) read() error {
	t, err := o.e.deps.Journal.Peek(o.ctx, o.id)
	if err != nil {
		return err
	}
	o.head, o.state = t.Head, t.Checkpoint
	o.flow = o.e.deps.Flows[t.Head.GetFlow()]
	if o.flow == nil {
		return errors.New("the flow " + t.Head.GetFlow() + " is not known to this executor")
	}
	o.interrupted = !o.idle()
	o.history = &history.Log{}
	for after := uint64(0); after < o.state.GetLastSeq(); {
		rs, err := o.e.deps.Journal.Records(o.ctx, o.id, after, loadBytes)
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			return errors.New("its record ends before its last event")
		}
		for _, r := range rs {
			o.history.Add(r.Record)
			after = r.FirstSeq + uint64(len(r.GetFacts())) - 1
		}
	}
	rounds, err := o.rounds()
	if err != nil {
		return err
	}
	o.session = o.e.deps.Runner.Session(o.id, o.head, rounds)
	return nil
}

// admitted waits for a running slot; meanwhile it folds in what needs none: refusals, cancellation, answers that are not
// allowed. Where that leaves nothing to run, there is no slot; again says that the task could not be left in peace.
func (o *owner) admitted() (slot, again bool) {
	left := false // commands that need a slot are in the inbox
	for {
		select {
		case o.e.slots <- struct{}{}:
			o.in.poke()
			return true, false
		default:
		}
		if o.draining() {
			return false, false
		}
		if o.in.takePoke() {
			var ok bool
			if left, ok = o.withoutSlot(); !ok {
				return false, true
			}
		}
		if o.idle() && !left && o.in.empty() {
			return false, false
		}
		select {
		case o.e.slots <- struct{}{}:
			o.in.poke() // what needs a slot is still in the inbox
			return true, false
		case <-o.e.draining:
		case <-o.in.wakeup:
		}
	}
}

// withoutSlot folds in the commands at the head of the inbox that start nothing. A cancellation goes before all others: a
// task that is cancelled does not wait for a slot. left says that others remain; where ok is false the owner must leave.
func (o *owner) withoutSlot() (left, ok bool) {
	inbox, err := o.e.deps.Journal.Inbox(o.ctx, o.id)
	if err != nil {
		o.log.Error("reading the inbox", "error", err)
		return false, false
	}
	var items []item
	for i, c := range cancelsFirst(inbox) {
		if !o.startsNothing(c) {
			left = true
			if i > 0 {
				o.in.poke() // what went before may have made it one that starts nothing
			}
			break
		}
		items = append(items, item{command: &c})
		if c.GetCancel() != nil && o.interrupted {
			items = append(items, item{input: takenUp{}, turn: o.turn})
			o.interrupted = false
		}
	}
	return left, o.move(items)
}

func cancelsFirst(inbox []journal.Command) []journal.Command {
	var cancels, others []journal.Command
	for _, c := range inbox {
		if c.GetCancel() != nil {
			cancels = append(cancels, c)
		} else {
			others = append(others, c)
		}
	}
	return append(cancels, others...)
}

// startsNothing tries a command on a copy: flows are pure.
func (o *owner) startsNothing(c journal.Command) bool {
	if c.GetCancel() != nil {
		return true
	}
	t, err := o.flow.On(o.task(clone(o.state)), flow.Command{Command: c.Command})
	if err != nil {
		return true
	}
	for _, e := range t.Effects {
		switch e.(type) {
		case flow.Abandon, flow.Release, flow.StopCall:
		default:
			return false
		}
	}
	return true
}

// gather returns what there is to fold in: first commands, so that nothing is begun that somebody has cancelled, then how
// an interrupted task goes on, then what effects brought.
func (o *owner) gather() (items []item, err error) {
	if o.in.takePoke() {
		inbox, err := o.e.deps.Journal.Inbox(o.ctx, o.id)
		if err != nil {
			return nil, err
		}
		for i := range inbox {
			items = append(items, item{command: &inbox[i]})
		}
	}
	if o.draining() {
		return nil, nil // commands keep; what comes back now is recorded by drain
	}
	if o.interrupted {
		o.interrupted = false
		items = append(items, item{input: takenUp{}, turn: o.turn})
	}
	return append(items, o.in.take()...), nil
}

// takenUp asks the flow how a loaded task goes on.
type takenUp struct{ flow.Input }

func (o *owner) idle() bool {
	return o.state.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING || state.Ended(o.state.GetStatus())
}

// drain lets a running call come back and records what came of it; everything else can be done again later.
func (o *owner) drain() {
	for o.calling {
		for _, i := range o.in.take() {
			c, ok := i.input.(flow.Called)
			if !ok {
				continue
			}
			o.calling = false
			if o.ctx.Err() != nil && c.Outcome == commonv1.Outcome_OUTCOME_UNKNOWN {
				// The stop itself cut the call off: what to do about it is decided when the task is taken up.
				return
			}
			o.move([]item{{input: c, turn: i.turn}})
			return
		}
		select {
		case <-o.in.wakeup:
		case <-o.ctx.Done():
			return
		}
	}
}

func (o *owner) task(s *storagev1.Checkpoint) *flow.Task {
	return &flow.Task{ID: o.id, Head: o.head, State: s, Now: time.Now()}
}

func (o *owner) draining() bool {
	select {
	case <-o.e.draining:
		return true
	default:
		return false
	}
}

func clone(s *storagev1.Checkpoint) *storagev1.Checkpoint {
	return proto.Clone(s).(*storagev1.Checkpoint)
}
