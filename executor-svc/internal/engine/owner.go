package engine

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/stack"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/runner"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// owner holds a task's claim and applies its inputs. It exists while the task runs and is dropped when the task waits or ends. It has no
// goroutine: the goroutine that delivers an input runs the owner, that is, it processes all queued inputs. Only one goroutine at a time runs
// the owner.
type owner struct {
	e     *Engine // constant, like id, epoch and slot
	id    string
	epoch uint64
	slot  bool
	in    queue
	// lost reports that the claim was lost.
	lost atomic.Bool
	// actions counts running actions.
	actions sync.WaitGroup

	// The fields below are used by the goroutine that runs the owner; there is at most one.

	head    *storagev1.TaskHead
	flow    flow.Flow
	session *runner.Session
	// state is never changed in place: each transition works on a copy, so that actions may read the state they were prepared from.
	state   *storagev1.Checkpoint
	history *history.Log
	// resumePending is true until the flow has been asked how the loaded task continues.
	resumePending bool

	// lanes holds what runs in each lane.
	lanes map[uint32]*laneRun
	// base is the parent of the contexts of the task's actions; it carries the task's trace and its user's identity.
	base context.Context
	span trace.Span
	// next is an action that the goroutine that runs the owner has to run next, or nil.
	next func()

	// timer fires when a run time is over or a wait's deadline has passed; nil if the task has had neither.
	timer *time.Timer
	// stableTimer fires when the process has survived long enough after recovering the task to reset its recovery count; nil if the
	// count is at most fewRecoveries.
	stableTimer *time.Timer
}

func newOwner(e *Engine, c journal.Claim) *owner {
	return &owner{e: e, id: c.TaskID, epoch: c.Epoch, slot: c.Slot, in: newQueue(), base: e.ctx}
}

func (o *owner) log() *slog.Logger { return o.e.deps.Log.With("task_id", o.id) }

// start loads the task and runs the owner. Without a slot, it applies only commands that need none.
func (o *owner) start() {
	stack.Reserve()
	if loaded, reclaim := o.load(); !loaded {
		o.release(reclaim)
		return
	}
	if !o.slot {
		o.release(!o.applyWithoutSlot() && !o.draining())
		return
	}
	o.runActions(o.run())
}

// run applies inputs until there are none, and returns the action that the caller has to run next, or nil. The caller has entered the
// queue.
func (o *owner) run() (next func()) {
	for {
		if leave, reclaim := o.advance(); leave {
			o.release(reclaim)
			return nil
		}
		next := o.next
		o.next = nil
		if o.in.exit() {
			return next
		}
		o.next = next
	}
}

// release ends the owner and gives up its claim. reclaim reports that the task needs another claim, for example because another writer changed
// it. No other goroutine may run the owner.
func (o *owner) release(reclaim bool) {
	o.cancelActions()
	if o.next != nil {
		go o.next()
	}
	for _, t := range []*time.Timer{o.timer, o.stableTimer} {
		if t != nil {
			t.Stop()
		}
	}
	if o.session != nil {
		o.session.Leave(context.WithoutCancel(o.base), !reclaim && state.Ended(o.state.GetStatus()))
	}
	o.actions.Wait()
	if o.span != nil {
		o.span.End()
	}
	o.e.removeOwner(o, reclaim)
	o.e.wg.Done()
}

// advance applies all queued inputs. leave reports that the owner has to release the task; reclaim, that the task needs another claim.
func (o *owner) advance() (leave, reclaim bool) {
	for {
		switch {
		case o.lost.Load():
			return true, false
		case o.draining():
			return o.recordOutcomes(), false
		}
		items, err := o.gather()
		switch {
		case err != nil:
			// The task is not released, because only this owner has the results of its actions.
			o.log().Error("the inbox could not be read; retrying", "error", err)
			o.in.noteCommands()
			sleep(retryDelay, o.e.draining)
		case len(items) > 0:
			if action := o.next; action != nil { // it must not wait for another commit
				o.next = nil
				go o.runActions(action)
			}
			if !o.apply(o.join(items)) {
				return true, true
			}
		case o.idle():
			return true, false
		default:
			o.setTimer()
			o.setStableTimer()
			return false, false
		}
	}
}

// applyWithoutSlot applies inbox commands that start no work, cancellations first, so that a queued task can be cancelled without a slot.
// Other commands stay in the inbox, and their senders get errQueued. It returns false if a change could not be committed or the engine stops.
func (o *owner) applyWithoutSlot() (ok bool) {
	for {
		inbox, err := o.e.deps.Journal.Inbox(o.base, o.id)
		if err != nil {
			// The task is not released: without a slot, only a further command would make it due.
			o.log().Error("the inbox could not be read; retrying", "error", err)
			if !sleep(retryDelay, o.e.draining) {
				return false
			}
			continue
		}
		if o.expired() {
			return o.apply([]item{{input: flow.Timeout{}, generation: noAction}}) // what continues needs a slot, and is resumed with one
		}
		first := max(0, slices.IndexFunc(inbox, func(c journal.Command) bool { return isCancel(c) && c.GetCancel().GetSubtaskId() == "" }))
		if len(inbox) == 0 || !o.startsNothing(inbox[first]) {
			for _, c := range inbox {
				o.e.reply(c.GetId(), errQueued)
			}
			return true
		}
		// One at a time: whether the next command starts work depends on the result of this one.
		if !o.apply([]item{{command: &inbox[first]}}) {
			return false
		}
	}
}

func isCancel(c journal.Command) bool { return c.GetCancel() != nil }

// startsNothing reports whether a command starts no work. Flows are pure, so it can try the command on a copy of the state.
func (o *owner) startsNothing(c journal.Command) bool {
	t, err := o.flow.Apply(o.task(proto.CloneOf(o.state)), 0, flow.Command{Command: c.Command})
	if err != nil {
		return true
	}
	for _, a := range t.Actions {
		switch a.Action.(type) {
		case flow.Abandon, flow.StopCall, flow.Withdraw:
		default:
			return false
		}
	}
	return true
}

// gather returns the inputs to apply: first the resumption of a loaded task, so that it does not schedule again what a command starts, then
// commands, so that a cancelled task starts nothing, the timeout of a wait, and the results of actions.
func (o *owner) gather() (items []item, err error) {
	if o.resumePending {
		items = append(items, item{input: resume{recovered: o.recovered()}, generation: noAction})
	}
	if o.in.takeCommandsNoted() {
		inbox, err := o.e.deps.Journal.Inbox(o.base, o.id)
		if err != nil {
			return nil, err
		}
		for i := range inbox {
			items = append(items, item{command: &inbox[i]})
		}
	}
	o.resumePending = false
	if o.expired() {
		items = append(items, item{input: flow.Timeout{}, generation: noAction})
	}
	return append(items, o.in.take()...), nil
}

// join returns items and the inputs that are about to arrive: calls of other lanes may be about to end, and yielding lets their outcomes share the
// commit.
func (o *owner) join(items []item) []item {
	for n := 0; n < len(items) && len(items) < o.calling(); {
		n = len(items)
		runtime.Gosched()
		items = append(items, o.in.take()...)
	}
	return items
}

// resume asks the flow how a loaded task continues.
type resume struct {
	flow.Input
	recovered bool
}

func (o *owner) idle() bool {
	return o.state.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING || state.Ended(o.state.GetStatus())
}

// recordOutcomes records the outcomes of running calls while the engine stops. Other actions can be repeated, and commands stay in the inbox.
// It returns true once the owner may release the task.
func (o *owner) recordOutcomes() bool {
	o.in.takeCommandsNoted()
	for _, i := range o.in.take() {
		if !o.current(i) || i.generation == noAction || !o.lane(i.lane).calling {
			continue
		}
		if _, isMcpTask := i.input.(flow.McpTask); isMcpTask && !o.apply([]item{i}) {
			return true
		}
		if !flow.EndsCall(i.input) {
			continue
		}
		o.lane(i.lane).calling = false
		if c, ok := i.input.(flow.Called); ok && o.base.Err() != nil {
			// The engine's stop cut off the call: the task's next owner continues it.
			switch {
			case c.Outcome == commonv1.Outcome_OUTCOME_UNKNOWN:
				continue
			case o.mustSendLater(c):
				i.input = flow.NotStarted{Ordinal: c.Ordinal}
			}
		}
		o.apply([]item{i})
	}
	if o.calling() > 0 && o.base.Err() == nil {
		return false
	}
	o.settleRecovery()
	return true
}

// mustSendLater reports whether the task's next owner has to send a call: it was waiting for a pool that could not be reached, and the task is
// not cancelled.
func (o *owner) mustSendLater(c flow.Called) bool {
	return c.Outcome == commonv1.Outcome_OUTCOME_NOT_EXECUTED && c.Err.GetReason() == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR &&
		!o.state.GetCancelRequested()
}

// task returns the task with a state, for flows and actions.
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

// sleep waits; it returns false if done is closed meanwhile.
func sleep(pause time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

// deliver queues an input and runs the owner if no other goroutine does.
func (o *owner) deliver(i item) {
	o.in.add(i)
	if o.in.enter() {
		go func() { o.runActions(o.run()) }()
	}
}

// wake makes the owner read its inbox, and check whether it has to release the task.
func (o *owner) wake() {
	o.in.noteCommands()
	if o.in.enter() {
		go func() { o.runActions(o.run()) }()
	}
}
