package engine_test

import (
	"slices"
	"sync"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/fake"
)

// Who starts a task and watches it has all its events, each once and in order, without a read of the journal; who watches it
// without having started it has the same ones (A26).
func TestStarterReadsNothing(t *testing.T) {
	r := newRig(t, fake.Script("read", "read"))
	var mu sync.Mutex
	var reads []string
	r.j.onRead = func(method, _ string) error {
		if mu.Lock(); method != "Inbox" { // an owner's
			reads = append(reads, method)
		}
		mu.Unlock()
		return nil
	}
	r.start()
	start := r.e.Starter()
	defer start.Close()
	id, err := start.Create(t.Context(), newTask(never))
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	toTheEnd := func(executorv1.ExecutorStatus) bool { return false }
	err = start.Watch(t.Context(), id, 0, toTheEnd, func(e *executorv1.ExecutorEvent) error {
		seqs = append(seqs, e.GetSeq())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if len(reads) > 0 {
		t.Errorf("read: %v", reads)
	}
	mu.Unlock()
	var all []uint64
	for _, e := range r.events(id) {
		all = append(all, e.GetSeq())
	}
	if !slices.Equal(seqs, all) || len(all) == 0 {
		t.Errorf("its starter saw the events %v of %v", seqs, all)
	}
}

// A starter whose request was another task's before watches that one (A26).
func TestStarterOfARepeatedRequest(t *testing.T) {
	r := newRig(t, fake.Script("read")).start()
	first, again := newTask(never), newTask(never)
	first.Head.RequestId, again.Head.RequestId = "once", "once"
	r.createAs(first)
	start := r.e.Starter()
	defer start.Close()
	id, err := start.Create(t.Context(), again)
	if err != nil || id != first.ID {
		t.Fatalf("the repeated request gave %s, not %s: %v", id, first.ID, err)
	}
	n := 0
	err = start.Watch(t.Context(), id, 0, func(executorv1.ExecutorStatus) bool { return false }, func(e *executorv1.ExecutorEvent) error {
		if n++; e.GetTaskId() != first.ID {
			t.Errorf("an event of %s", e.GetTaskId())
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Errorf("%d events: %v", n, err)
	}
}
