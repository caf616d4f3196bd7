package engine

import (
	"errors"
	"fmt"
	"time"

	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
)

// loadBytes is how much of a task's record is read at once.
const loadBytes = 1 << 20

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
			o.log().Error("the task cannot be loaded", "error", err)
			return false, true
		}
		o.log().Error("loading the task; trying again", "error", err, "pause", pause)
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
