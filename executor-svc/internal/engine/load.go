package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/runner"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// loadBytes bounds the bytes of a task's records that are read at once.
	loadBytes = 1 << 20
	// maxConversationTurns is how many earlier turns (question and answer) of a conversation the planner gets.
	maxConversationTurns = 3
	// firstPause and lastPause bound the backoff between attempts while the storage fails.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// noticePause is the backoff at which the storage is reported as failing.
	noticePause = 400 * time.Millisecond
)

// errUnknownFlow is the error of a task that a newer executor created.
var errUnknownFlow = errors.New("the flow is not known to this executor; use a newer executor")

// load reads the task and its history, with backoff while the storage fails. reclaim reports that the task cannot be read: its slot is given
// up, and the task is claimed again later.
func (o *owner) load() (loaded, reclaim bool) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := o.read()
		switch {
		case err == nil:
			return true, false
		case errors.Is(err, journal.ErrClosed), errors.Is(err, journal.ErrNotFound), o.base.Err() != nil:
			return false, false
		case errors.Is(err, journal.ErrDamaged), errors.Is(err, errUnknownFlow):
			o.log().Error("the task cannot be loaded", "error", err)
			return false, true
		}
		o.log().Error("the task could not be loaded; retrying", "error", err, "pause", pause)
		if !sleep(pause, o.e.draining) {
			return false, false
		}
	}
}

func (o *owner) read() error {
	t, err := o.e.deps.Journal.Load(o.base, o.id)
	if err != nil {
		return err
	}
	o.head, o.state, o.history = t.Head, t.Checkpoint, &history.Log{}
	for after := uint64(0); after < o.state.GetLastSeq(); {
		records, err := o.e.deps.Journal.Records(o.base, o.id, after, loadBytes)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return errors.New("records are missing at the end of the task's history")
		}
		for _, r := range records {
			o.history.Add(r.Record)
			after = r.FirstSeq + uint64(len(r.GetFacts())) - 1
		}
	}
	if o.flow = o.e.deps.Flows[o.head.GetFlow()]; o.flow == nil {
		return fmt.Errorf("%q: %w", o.head.GetFlow(), errUnknownFlow)
	}
	turns, err := o.conversationTurns()
	if err != nil {
		return err
	}
	o.resumePending = !o.idle()
	o.session = o.e.deps.Runner.Session(o.id, o.epoch, o.head, turns)
	o.session.Notify = func(in flow.Input) { o.deliver(item{input: in, generation: noAction}) }
	o.base = o.session.AsUser(o.e.ctx)
	o.startSpan()
	o.lanes = map[uint32]*laneRun{}
	return nil
}

// conversationTurns loads the newest turns of the conversation: its successful tasks that were created before this task.
func (o *owner) conversationTurns() (turns []runner.Turn, err error) {
	if o.head.GetConversationId() == "" {
		return nil, nil
	}
	page, err := o.e.deps.Journal.List(o.base, journal.Query{
		User: o.head.GetUserSub(), ConversationID: o.head.GetConversationId(), Before: o.id, Limit: maxConversationTurns,
		Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS},
	})
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(page.Tasks) {
		records, err := o.e.deps.Journal.Records(o.base, t.ID, t.Checkpoint.GetLastSeq()-1, loadBytes)
		if err != nil {
			return nil, err
		}
		turns = append(turns, runner.Turn{Question: t.Head.GetGoal(), Answer: view.FullAnswer(records)})
	}
	return turns, nil
}
