package engine

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"pawl.dev/executor-svc/internal/flow"
)

// Of many who bring something one is at work at a time, and whatever is brought is taken in by somebody (DESIGN 4).
func TestOneAtWorkLosesNothing(t *testing.T) {
	const people, each = 8, 2000
	q := newQueue()
	if q.enter() {
		t.Fatal("entered beside the owner that begins")
	}
	q.takePoke()
	if !q.leave() {
		t.Fatal("there is nothing to do, and the owner does not leave")
	}
	found := 0 // the race detector sees it where two are at work
	work := func() {
		for more := q.enter(); more; more = !q.leave() {
			found += len(q.take())
			q.takePoke()
		}
	}
	var wg sync.WaitGroup
	for range people {
		wg.Go(func() {
			for i := range each {
				if i%10 == 0 {
					q.poke()
				}
				q.add(item{input: flow.Lapsed{}})
				work()
			}
		})
	}
	wg.Wait()
	if found != people*each || !q.enter() {
		t.Errorf("%d of %d items were taken in", found, people*each)
	}
}

// What is lent again and again needs one goroutine, and so does what a job leads to; none stays once the owner has left (DESIGN 11).
func TestLentJobsShareAGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 100
		o := &owner{more: make(chan job)}
		did, before := 0, runtime.NumGoroutine()
		for range jobs {
			o.lend(func() job { return func() job { did++; return nil } })
			synctest.Wait() // its goroutine has nothing to do
		}
		if n := runtime.NumGoroutine() - before; n > 1 || did != jobs {
			t.Errorf("%d goroutines did %d of %d jobs", n, did, jobs)
		}
		close(o.more) // a goroutine that stayed would be a deadlock of the bubble
	})
}
