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
	// seen is the number of the newest command that was folded in or is being folded in.
	seen uint64

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

func (o *owner) run() {
	left := false
	defer func() {
		if !left {
			o.e.leave(o, true)
		}
	}()
	o.ctx, o.cancel = context.WithCancel(o.e.hard)
	defer func() {
		o.cancel()
		o.effects.Wait()
	}()
	if err := o.load(); err != nil {
		if !errors.Is(err, journal.ErrClosed) {
			o.log.Error("loading the task", "error", err)
		}
		return
	}
	if !o.admitted() {
		return
	}
	defer func() { <-o.e.slots }()
	if !o.begin() {
		return
	}
	for {
		if o.idle() && o.e.leave(o, false) {
			left = true
			return
		}
		select {
		case <-o.in.wake:
		case <-o.e.draining:
		}
		if o.draining() {
			o.drain()
			return
		}
		if !o.move(o.in.take()) {
			return
		}
	}
}

// load reads the task, its history and its inbox.
func (o *owner) load() error {
	t, err := o.e.deps.Journal.Load(o.ctx, o.id)
	if err != nil {
		return err
	}
	o.head, o.state = t.Head, t.Checkpoint
	o.flow = o.e.deps.Flows[t.Head.GetFlow()]
	if o.flow == nil {
		return errors.New("the flow " + t.Head.GetFlow() + " is not known to this executor")
	}
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
	for i := range t.Inbox {
		o.in.put(item{command: &t.Inbox[i]})
	}
	return nil
}

// admitted waits for a slot. A task that is cancelled in the queue does not wait for one.
func (o *owner) admitted() bool {
	for {
		select {
		case o.e.slots <- struct{}{}:
			o.in.wakeAgain()
			return true
		case <-o.e.draining:
			return false
		case <-o.in.wake:
		}
		if !o.in.has(isCancel) {
			continue
		}
		if !o.move(o.in.take()) || o.idle() && o.e.leave(o, false) {
			return false
		}
	}
}

func isCancel(i item) bool { return i.command != nil && i.command.GetCancel() != nil }

// begin takes the task up where it was. A waiting or ended one has only its commands to fold in.
func (o *owner) begin() bool {
	if o.idle() {
		return true
	}
	return o.move([]item{{input: takenUp{}, turn: o.turn}})
}

// takenUp asks the flow how a loaded task goes on.
type takenUp struct{ flow.Input }

func (o *owner) idle() bool {
	return o.state.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING || state.Ended(o.state.GetStatus())
}

// drain lets a running call come back and records what came of it; everything else can be done again later.
func (o *owner) drain() {
	for o.calling {
		items := o.in.take()
		for _, i := range items {
			if c, ok := i.input.(flow.Called); ok {
				o.calling = false
				if o.ctx.Err() != nil && c.Outcome == commonv1.Outcome_OUTCOME_UNKNOWN {
					// The stop itself cut the call off: what to do about it is decided when the task is taken up.
					return
				}
				o.move([]item{{input: c, turn: i.turn}})
				return
			}
		}
		select {
		case <-o.in.wake:
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
