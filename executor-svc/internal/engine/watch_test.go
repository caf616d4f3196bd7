package engine_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/fake"
)

// A watcher of a running task has all its events, each once and in order; so has one that comes later (A26).
func TestWatchersSeeAllEvents(t *testing.T) {
	r := newRig(t, fake.Script("read", "read")).start()
	id, err := r.e.Create(t.Context(), newTask(never))
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	toTheEnd := func(executorv1.ExecutorStatus) bool { return false }
	err = r.e.Watch(t.Context(), id, 0, toTheEnd, func(e *executorv1.ExecutorEvent) error {
		seqs = append(seqs, e.GetSeq())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for _, e := range r.events(id) {
		all = append(all, e.GetSeq())
	}
	if !slices.Equal(seqs, all) || len(all) == 0 {
		t.Errorf("the watcher saw the events %v of %v", seqs, all)
	}
}

// Large events are read from the journal once if the budget of watchers has room for them.
func TestLargeEventsAreReadOnce(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	var reads atomic.Int32
	r.j.onRead = func(method, _ string) error {
		if method == "Records" {
			reads.Add(1)
		}
		return nil
	}
	r.start()
	large := newTask(never)
	large.Records[0].Facts[0].GetStatusChanged().Reason = strings.Repeat("x", 100<<10)
	id := r.createAs(large)
	r.finish(id)
	reads.Store(0)
	if r.events(id); reads.Load() != 1 {
		t.Errorf("the events were read %d times", reads.Load())
	}
}
