package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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

// loadBytes is how much of a task's record is read at once.
const loadBytes = 1 << 20

// owner is the one turn that may write a task now. It lives while the task runs, and leaves when it waits or has ended.
type owner struct {
	e     *Engine
	id    string
	epoch uint64
	slot  bool
	in    *queue
	log   *slog.Logger

	head    *storagev1.TaskHead
	flow    flow.Flow
	session *runner.Session
	// state is never changed in place: each move works on a copy, so that effects may read what they were given.
	state   *storagev1.Checkpoint
	history *history.Log
	// takenUp says that the flow was not asked yet how the loaded task goes on.
	takeUp bool

	// turn counts Abandon; calling says that a tool call has not come back, and following that it was made before.
	turn      int
	calling   bool
	following bool
	cancel    context.CancelFunc
	ctx       context.Context
	effects   sync.WaitGroup
	// more takes effects for goroutines that have run one; it is closed when the last effect has ended.
	more chan func()
	// lost is closed when the claim was lost.
	lost    chan struct{}
	abandon func()
	// lapse fires when a deadline or the task's run time passes.
	lapse *time.Timer
	// harmless fires when the process has lived on with the task for a while since it was taken up; nil while nothing depends on it.
	harmless <-chan time.Time
	// lapsed says that it has fired for the running call, which was told to stop.
	lapsed bool
}

func newOwner(e *Engine, c journal.Claim) *owner {
	o := &owner{e: e, id: c.TaskID, epoch: c.Epoch, slot: c.Slot, in: newQueue(), more: make(chan func()), log: e.deps.Log.With("task_id", c.TaskID), lost: make(chan struct{})}
	o.abandon = sync.OnceFunc(func() { close(o.lost) })
	return o
}

// run owns the task until it waits or has ended. A task that another writer changed under it is loaded again.
func (o *owner) run() {
	o.ctx, o.cancel = context.WithCancel(o.e.hard)
	again := o.own()
	o.cancel()
	if o.session != nil {
		o.beside(o.session.Leave)
	}
	o.effects.Wait()
	close(o.more)
	o.e.leave(o, again)
}

// own says whether the task has to be owned again: it was not left in peace.
func (o *owner) own() (again bool) {
	if ok, again := o.load(); !ok {
		return again
	}
	if !o.slot {
		return !o.withoutSlot() && !o.draining()
	}
	o.lapse = time.NewTimer(time.Hour)
	defer o.lapse.Stop()
	for {
		o.setLapse()
		o.watchHarm()
		items, err := o.gather()
		switch {
		case err != nil:
			// Not left: what effects brought is here alone.
			o.log.Error("reading the inbox; trying again", "error", err)
			o.in.poke()
			if !o.rest(againAfter) {
				o.drain()
				return false
			}
			continue
		case len(items) > 0:
			if !o.move(items) {
				return true
			}
			continue
		case o.draining():
			o.drain()
			o.left()
			return false
		case o.idle():
			return false
		}
		select {
		case <-o.in.wakeup:
		case <-o.lapse.C:
			o.lapsed = true
			o.in.put(item{input: flow.Lapsed{}, turn: o.turn})
		case <-o.harmless:
			o.in.put(item{input: flow.Harmless{}, turn: o.turn})
		case <-o.lost:
			return false
		case <-o.e.draining:
		}
	}
}

// load reads the task and its history; a storage that fails for a while is asked again. A task that cannot be read at all
// gives its slot to others and is tried again in its turn.
func (o *owner) load() (ok, again bool) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := o.read()
		switch {
		case err == nil:
			return true, false
		case errors.Is(err, journal.ErrClosed), errors.Is(err, journal.ErrNotFound), o.ctx.Err() != nil:
			return false, false
		case errors.Is(err, journal.ErrDamaged), errors.Is(err, errUnknownFlow):
			o.log.Error("the task cannot be loaded", "error", err)
			return false, true
		}
		o.log.Error("loading the task; trying again", "error", err, "pause", pause)
		if !o.rest(pause) {
			return false, false
		}
	}
}

// errUnknownFlow: the task was created by a newer executor.
var errUnknownFlow = errors.New("the flow is not known to this executor; use a newer one")

// rest waits; false means that the engine stops.
func (o *owner) rest(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-o.e.draining:
		return false
	}
}

func (o *owner) read() error {
	if n, ok := o.e.takeFresh(o.id); ok {
		o.head, o.state, o.history = n.Head, n.Checkpoint, &history.Log{}
		for _, r := range n.Records {
			o.history.Add(r.Record)
		}
	} else if err := o.readStored(); err != nil {
		return err
	}
	if o.flow = o.e.deps.Flows[o.head.GetFlow()]; o.flow == nil {
		return fmt.Errorf("%q: %w", o.head.GetFlow(), errUnknownFlow)
	}
	o.takeUp = !o.idle()
	rounds, err := o.rounds()
	if err != nil {
		return err
	}
	o.session = o.e.deps.Runner.Session(o.id, o.epoch, o.head, rounds)
	return nil
}

func (o *owner) readStored() error {
	t, err := o.e.deps.Journal.Peek(o.ctx, o.id)
	if err != nil {
		return err
	}
	o.head, o.state, o.history = t.Head, t.Checkpoint, &history.Log{}
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
	return nil
}

// withoutSlot folds in the commands at the head of the inbox that start nothing, a cancellation before all others: a task
// that is cancelled does not wait for a slot. The rest stays where it is, and its senders learn that.
func (o *owner) withoutSlot() (ok bool) {
	for {
		inbox, err := o.e.deps.Journal.Inbox(o.ctx, o.id)
		if err != nil {
			// Not left to another claim: without a slot there is one only when a further command comes.
			o.log.Error("reading the inbox; trying again", "error", err)
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
		case flow.Abandon, flow.Release, flow.StopCall, flow.Withdraw:
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
	if o.draining() {
		return nil, nil // commands keep; what comes back now is recorded by drain
	}
	if o.takeUp {
		o.takeUp = false
		recovered := o.state.GetUpdateTime() < o.e.began.UnixNano()
		items = append(items, item{input: takenUp{recovered: recovered}, turn: o.turn})
	}
	if o.idle() && o.expired() {
		items = append(items, item{input: flow.Lapsed{}, turn: o.turn})
	}
	return append(items, o.in.take()...), nil
}

// takenUp asks the flow how a loaded task goes on.
type takenUp struct {
	flow.Input
	recovered bool
}

func (o *owner) idle() bool {
	return o.state.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING || state.Ended(o.state.GetStatus())
}

// expired says whether a question has been open for too long.
func (o *owner) expired() bool {
	d := deadline(o.state)
	return !d.IsZero() && !time.Now().Before(d)
}

// deadline is when the first of a task's questions lapses; zero where none does.
func deadline(c *storagev1.Checkpoint) time.Time {
	var first int64
	for _, w := range c.GetWaits() {
		if d := w.GetDeadline(); d != 0 && (first == 0 || d < first) {
			first = d
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return time.Unix(0, first)
}

// setLapse sets the timer for the end of the task's run time.
func (o *owner) setLapse() {
	if o.lapsed = o.lapsed && o.calling; o.lapsed {
		return
	}
	if limit := o.head.GetLimits().GetMaxRunTime(); limit > 0 && !o.idle() {
		o.lapse.Reset(max(time.Millisecond, time.Duration(limit-flow.RunTime(o.state, time.Now()))))
	}
}

// drain lets a running call come back and records what came of it; everything else can be done again later.
func (o *owner) drain() {
	for o.calling {
		for _, i := range o.in.take() {
			if _, named := i.input.(flow.Tasked); named && !o.move([]item{i}) {
				return
			}
			if !flow.EndsCall(i.input) {
				continue
			}
			o.calling = false
			if c, ok := i.input.(flow.Called); ok && o.ctx.Err() != nil && c.Outcome == commonv1.Outcome_OUTCOME_UNKNOWN {
				// The stop itself cut the call off: what to do about it is decided when the task is taken up.
				return
			}
			o.move([]item{i})
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
