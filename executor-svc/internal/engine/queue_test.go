package engine

import (
	"sync"
	"testing"

	"pawl.dev/executor-svc/internal/flow"
)

// Of many goroutines that deliver inputs, one runs the owner at a time, and no input is lost.
func TestQueueLosesNothing(t *testing.T) {
	const senders, each = 8, 2000
	q := newQueue()
	if q.enter() {
		t.Fatal("entered beside the owner that begins")
	}
	q.takeCommandsNoted()
	if !q.exit() {
		t.Fatal("there is nothing to do, and the owner does not leave")
	}
	found := 0 // the race detector reports it if two goroutines run the owner
	work := func() {
		for more := q.enter(); more; more = !q.exit() {
			found += len(q.take())
			q.takeCommandsNoted()
		}
	}
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := range each {
				if i%10 == 0 {
					q.noteCommands()
				}
				q.add(item{input: flow.Timeout{}})
				work()
			}
		})
	}
	wg.Wait()
	if found != senders*each || !q.enter() {
		t.Errorf("%d of %d items were taken", found, senders*each)
	}
}
