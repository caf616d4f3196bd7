package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/memory"
)

const (
	// loadBytes bounds the bytes of a task's records that are read at once.
	loadBytes = 1 << 20
	// keptOutputs bounds the bytes of the outputs of a running task that stay in memory; others are read from the journal when they are needed.
	keptOutputs = 1 << 20
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
	o.head, o.state, o.history = t.Head, t.Checkpoint, &history.Log{MaxOutputs: keptOutputs}
	for after := uint64(0); after < o.state.GetLastSeq(); {
		records, err := o.e.records(o.base, o.id, after, loadBytes)
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
	known, err := memory.Load(o.base, o.e.deps.Journal, o.id, o.head, o.flow.Memory(o.head))
	if err != nil {
		return err
	}
	o.resumePending = !o.idle()
	o.session = o.e.deps.Runner.Session(o.id, o.epoch, o.head, known)
	o.session.ReadOutput = o.readOutput
	o.session.Notify = func(in flow.Input) { o.deliver(item{input: in, generation: noAction}) }
	o.base = o.session.AsUser(o.e.ctx)
	o.startSpan()
	o.lanes = map[uint32]*laneRun{}
	return nil
}

// readOutput returns the output in the fact with this seq.
func (o *owner) readOutput(ctx context.Context, seq uint64) (string, error) {
	records, err := o.e.records(ctx, o.id, seq-1, 1)
	if err != nil {
		return "", err
	}
	if len(records) == 0 || seq < records[0].FirstSeq {
		return "", fmt.Errorf("the record of seq %d: %w", seq, journal.ErrNotFound)
	}
	return records[0].GetFacts()[seq-records[0].FirstSeq].GetStepOutput(), nil
}
