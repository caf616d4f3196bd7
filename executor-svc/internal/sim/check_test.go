package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/executor/executortest"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/state"
	"pawl.dev/executor-svc/internal/view"
)

const waiting = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING

// quiet reports whether everything has ended or waits for people, and no caller waits for a result.
func (w *world) quiet() bool {
	if w.active.Load() > 0 || w.undispatched() || w.undelivered() {
		return false
	}
	for _, k := range w.book.all() {
		if !k.rests() {
			return false
		}
	}
	return true
}

func (k *taskBook) rests() bool {
	c := k.checkpoint
	return k.gone || k.owner == nil && len(k.pending) == 0 &&
		(state.Ended(c.GetStatus()) || c.GetStatus() == waiting && len(c.GetWaits()) > 0)
}

// finish lets everything run on without faults, answers all waits, stops, and checks the result.
func (w *world) finish(t testing.TB) {
	w.s.note("nothing fails from here on", 0)
	if !w.settle(t) {
		w.stranded()
		w.end(t)
		return
	}
	w.endings()
	w.s.note("everything that is asked is answered", 0)
	for range 60 {
		open := 0
		for _, k := range w.book.all() {
			if c := k.checkpoint; !k.gone && c.GetStatus() == waiting {
				open++
				for _, i := range w.s.rng.Perm(len(c.GetWaits())) {
					w.answers(k, c.GetWaits()[i])
				}
			}
		}
		if open == 0 {
			w.end(t)
			w.check(t)
			return
		}
		if !w.settle(t) {
			break
		}
	}
	w.stranded()
	w.end(t)
}

// stranded reports the tasks that do not come to rest; if all do, those that do not end although their waits are answered.
func (w *world) stranded() {
	all := w.book.all()
	rests := !slices.ContainsFunc(all, func(k *taskBook) bool { return !k.rests() })
	for _, k := range all {
		if c := k.checkpoint; !k.rests() || rests && !k.gone && !state.Ended(c.GetStatus()) {
			w.book.fault("%s does not end: %s with %v, owned: %t, %d commands, waits %v", k.name, c.GetStatus(), c.GetLanes(), k.owner != nil, len(k.pending), c.GetWaits())
		}
	}
	if len(w.book.problems) == 0 {
		w.book.fault("the world does not come to rest: %d people wait, messages wait for agents: %t, events wait for delivery: %t", w.active.Load(), w.undispatched(), w.undelivered())
	}
}

// end stops the process in an orderly way, and everything else with it.
func (w *world) end(t testing.TB) {
	if w.proc != nil {
		w.proc.stopping = true
		w.proc.cancel()
		for range 2000 {
			synctest.Wait()
			if w.stopped(t); w.proc == nil {
				break
			}
			if ready := w.s.ready(); len(ready) > 0 {
				w.s.release(ready[0])
			} else {
				w.s.pause(pauseAtEnd)
			}
		}
		if w.proc != nil {
			w.book.fault("%s does not stop", w.proc.name)
			w.crash(t)
		}
	}
	if w.livingPool() != nil {
		w.killPool()
	}
	w.cancel()
	w.busy.Wait()
	for _, p := range w.crashed { // their timers still have to run out
		<-p.ran
	}
	w.s.pause(time.Minute)
}

// check looks at what is left in the journal, and at what happened on the way there.
func (w *world) check(t testing.TB) {
	store, err := bolt.Open(w.path)
	if err != nil {
		t.Fatalf("opening the journal: %v", err)
	}
	defer store.Close()
	if err := store.Check(); err != nil {
		w.book.fault("the journal is inconsistent: %v", err)
	}
	j := journal.Journal(store)
	if w.plant.journal != nil {
		j = w.plant.journal(store)
	}
	for _, k := range w.book.all() {
		if k.gone {
			continue
		}
		events := w.stored(j, k)
		for _, problem := range executortest.Violations(events) {
			w.book.fault("%s: %s", k.name, problem)
		}
		for _, seen := range w.watchers {
			if seen.task == k {
				w.sameEvents(seen, events)
			}
		}
		w.audit(k)
	}
	for _, k := range w.book.talks {
		w.auditTopic(j, k)
	}
	for _, h := range w.book.hooks {
		w.auditHook(j, h)
	}
}

// stored compares a task in the journal with what the book holds as durable, and returns the task's events.
func (w *world) stored(j journal.Journal, k *taskBook) []*executorv1.ExecutorEvent {
	ctx := context.Background()
	t, err := j.Load(ctx, k.id)
	if err != nil {
		w.book.fault("%s cannot be read: %v", k.name, err)
		return nil
	}
	if !proto.Equal(t.Checkpoint, k.checkpoint) {
		w.book.fault("%s: the checkpoint is %v, committed was %v", k.name, t.Checkpoint, k.checkpoint)
	}
	if in, err := j.Inbox(ctx, k.id); err != nil || len(in) > 0 {
		w.book.fault("%s: its inbox still holds %v, %v", k.name, in, err)
	}
	var events []*executorv1.ExecutorEvent
	for after, n := uint64(0), 0; ; {
		rs, err := j.Records(ctx, k.id, after, 1<<20)
		if err != nil || len(rs) == 0 {
			if err != nil || n != len(k.facts) {
				w.book.fault("%s: %d of %d facts can be read: %v", k.name, n, len(k.facts), err)
			}
			return events
		}
		for _, r := range rs {
			for _, f := range r.GetFacts() {
				if n >= len(k.facts) || !proto.Equal(f, k.facts[n]) {
					w.book.fault("%s: fact %d is %v, which was not committed there", k.name, n+1, f)
				}
				n++
			}
			events = append(events, view.Events(t, r)...)
			after = r.FirstSeq + uint64(len(r.GetFacts())) - 1
		}
	}
}

// sameEvents checks that a watcher was shown what is stored.
func (w *world) sameEvents(seen *watcher, events []*executorv1.ExecutorEvent) {
	for i, e := range seen.events {
		if e.GetSeq() != uint64(i+1) {
			w.book.fault("%s: a watcher is shown event %d as number %d", seen.task.name, e.GetSeq(), i+1)
			return
		}
		if i >= len(events) || !proto.Equal(e, events[i]) {
			w.book.fault("%s: a watcher was shown %v, which is not stored", seen.task.name, e)
			return
		}
	}
}

// refused says whether a person was told that an answer has no effect.
func (a *answerNote) refused() bool {
	if !a.done || a.err == nil {
		return false
	}
	switch errs.From(a.err).Code {
	case codes.FailedPrecondition, codes.InvalidArgument, codes.NotFound:
		return true
	}
	return false
}

func short(problems []string) string { return strings.Join(problems, "\n  ") }

// outcome is how a seed went.
type outcome struct {
	problems []string
	trace    []string
	tasks    int
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64, dir string, pl plant, verbose bool) (o outcome) {
	t.Helper()
	var w *world
	defer func() {
		if verbose {
			return // a panic shows all goroutines
		}
		if r := recover(); r != nil {
			o.problems = append(o.problems, fmt.Sprintf("panic: %v", r))
			if w != nil {
				o.trace = w.s.lines()
			}
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(seed, dir, pl, verbose)
		w.open(t)
		w.startPool()
		w.startProc(t)
		for range w.cfg.moves {
			w.move(t)
		}
		w.finish(t)
		o = outcome{problems: w.book.problems, trace: w.s.lines(), tasks: len(w.book.all())}
	})
	return o
}

// open makes the journal, with the agents.
func (w *world) open(t testing.TB) {
	store, err := bolt.Open(w.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range users {
		for id, a := range agents {
			if err := store.PutAgent(context.Background(), user, id, proto.Clone(a).(*agentMessage), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.openTopics(t, store)
	w.openHooks(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
