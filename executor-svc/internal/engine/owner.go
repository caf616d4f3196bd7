package engine

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/runner"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// owner is who may write a task now. It lives while the task runs, and leaves when it waits or has ended. It has no goroutine of
// its own: whoever brings something for the task (an effect that came back, somebody who sent a command, a timer) goes on with it,
// unless another is at work on it already and so sees it. Fields that are not said to be constant belong to whoever is at work.
type owner struct {
	e     *Engine // constant, like the three below
	id    string
	epoch uint64
	slot  bool
	in    queue

	head    *storagev1.TaskHead
	flow    flow.Flow
	session *runner.Session
	// state is never changed in place: each move works on a copy, so that effects may read what they were given.
	state   *storagev1.Checkpoint
	asked   flow.Task // what the flow is asked with
	history *history.Log
	// takeUp says that the flow was not asked yet how the loaded task goes on.
	takeUp bool

	// turn counts Abandon; calling says that a tool call has not come back, and following that it was made before.
	turn      int
	calling   bool
	following bool
	// ctx, cancel and emit are those of the turn's effects.
	ctx     context.Context
	cancel  context.CancelFunc
	emit    func(flow.Input)
	effects sync.WaitGroup
	// next is begun by the goroutine that is at work, once there is nothing else to do.
	next job
	// more takes jobs for goroutines that have none; it is closed when the last effect has ended. Constant, like onward: goOn.
	more   chan job
	onward job
	// lost says that the claim was lost.
	lost atomic.Bool
	// lapse fires when the task's run time has passed; nil where that is not bounded.
	lapse *time.Timer
	// harmless fires when the process has lived on with the task for a while since it was taken up; nil while nothing depends on it.
	harmless *time.Timer
	// lapsed says that it has fired for the running call, which was told to stop.
	lapsed bool
}

func newOwner(e *Engine, c journal.Claim) *owner {
	o := &owner{e: e, id: c.TaskID, epoch: c.Epoch, slot: c.Slot, in: newQueue(), more: make(chan job)}
	o.onward = o.goOn
	return o
}

func (o *owner) log() *slog.Logger { return o.e.deps.Log.With("task_id", o.id) }

// run begins to own the task.
func (o *owner) run() job {
	o.beginTurn()
	if ok, again := o.load(); !ok {
		return o.leave(again)
	}
	if !o.slot {
		return o.leave(!o.withoutSlot() && !o.draining())
	}
	return o.onward
}

// goOn does what there is to do for the task now. The goroutine does next what the task waits for then.
func (o *owner) goOn() job {
	for {
		if over, again := o.advance(); over {
			return o.leave(again)
		}
		next := o.next
		o.next = nil
		if o.in.leave() {
			return next
		}
		if next != nil {
			o.lend(next)
		}
	}
}

// leave ends the ownership. A task that another writer changed is loaded again: it was not left in peace. Nobody can be at work on
// it any more.
func (o *owner) leave(again bool) job {
	o.cancel()
	for _, t := range []*time.Timer{o.lapse, o.harmless} {
		if t != nil {
			t.Stop()
		}
	}
	if o.next != nil {
		o.next()
	}
	if o.session != nil {
		o.session.Leave(context.WithoutCancel(o.e.hard), !again && state.Ended(o.state.GetStatus()))
	}
	o.effects.Wait()
	close(o.more)
	o.e.leave(o, again)
	o.e.wg.Done()
	return nil
}

// advance folds in all there is. over says that the owner is to leave, and again that the task has to be owned again then.
func (o *owner) advance() (over, again bool) {
	for {
		switch {
		case o.lost.Load():
			return true, false
		case o.draining():
			return o.drained(), false
		}
		items, err := o.gather()
		switch {
		case err != nil:
			// Not left: what effects brought is here alone.
			o.log().Error("reading the inbox; trying again", "error", err)
			o.in.poke()
			o.lendNext()
			o.rest(againAfter)
		case len(items) > 0:
			o.lendNext() // it is not to wait for a commit
			if !o.move(items) {
				return true, true
			}
		case o.idle():
			return true, false
		default:
			o.setLapse()
			o.watchHarm()
			return false, false
		}
	}
}

// withoutSlot folds in the commands at the head of the inbox that start nothing, a cancellation before all others: a task
// that is cancelled does not wait for a slot. The rest stays where it is, and its senders learn that.
func (o *owner) withoutSlot() (ok bool) {
	for {
		inbox, err := o.e.deps.Journal.Inbox(o.ctx, o.id)
		if err != nil {
			// Not left to another claim: without a slot there is one only when a further command comes.
			o.log().Error("reading the inbox; trying again", "error", err)
			if !o.rest(againAfter) {
				return false
			}
			continue
		}
		if o.expired() {
			return o.move([]item{{input: flow.Lapsed{}, turn: o.turn}})
		}
		inbox = cancelsFirst(inbox)
		if len(inbox) == 0 || !o.startsNothing(inbox[0]) {
			for _, c := range inbox {
				o.e.answer(c.GetId(), errQueued)
			}
			return true
		}
		// One at a time: what it does decides what the next one starts.
		if !o.move([]item{{command: &inbox[0]}}) {
			return false
		}
	}
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
	t, err := o.flow.On(o.task(flow.Clone(o.state)), flow.Command{Command: c.Command})
	if err != nil {
		return true
	}
	for _, e := range t.Effects {
		switch e.(type) {
		case flow.Abandon, flow.StopCall, flow.Withdraw:
		default:
			return false
		}
	}
	return true
}

// gather returns what there is to fold in: first commands, so that nothing is begun that somebody has cancelled, then how
// a loaded task goes on, then what effects brought.
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
	if o.takeUp {
		o.takeUp = false
		recovered := o.state.GetUpdateTime() < o.e.began.UnixNano()
		items = append(items, item{input: takenUp{recovered: recovered}, turn: o.turn})
	}
	if o.idle() && o.expired() {
		items = append(items, item{input: flow.Lapsed{}, turn: o.turn})
	}
	return join(items, o.in.take()), nil
}

// takenUp asks the flow how a loaded task goes on.
type takenUp struct {
	flow.Input
	recovered bool
}

func (o *owner) idle() bool {
	return o.state.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING || state.Ended(o.state.GetStatus())
}

// drained records what a running call brings while the engine stops; everything else can be done again later, and commands keep.
// True once the owner may leave.
func (o *owner) drained() bool {
	o.in.takePoke()
	for _, i := range o.in.take() {
		if _, named := i.input.(flow.Tasked); o.calling && named && !o.move([]item{i}) {
			return true
		}
		if !o.calling || !flow.EndsCall(i.input) {
			continue
		}
		o.calling = false
		if c, ok := i.input.(flow.Called); ok && o.ctx.Err() != nil {
			// The stop itself cut the call off: what to do about it is decided when the task is taken up.
			switch {
			case c.Outcome == commonv1.Outcome_OUTCOME_UNKNOWN:
				continue
			case o.waited(c):
				i.input = flow.NotStarted{Ordinal: c.Ordinal}
			}
		}
		o.move([]item{i})
	}
	if o.calling && o.ctx.Err() == nil {
		return false
	}
	o.left()
	return true
}

// waited says that a call was not sent, because a pool that is out of reach was still waited for. It is made when the task is taken up.
func (o *owner) waited(c flow.Called) bool {
	return c.Outcome == commonv1.Outcome_OUTCOME_NOT_EXECUTED && c.Err.GetReason() == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR &&
		!o.state.GetCancelRequested()
}

// task is what a flow is asked with, or an effect prepared: nobody keeps it.
func (o *owner) task(s *storagev1.Checkpoint) *flow.Task {
	o.asked = flow.Task{ID: o.id, Head: o.head, State: s, Now: time.Now()}
	return &o.asked
}

func (o *owner) draining() bool {
	select {
	case <-o.e.draining:
		return true
	default:
		return false
	}
}
