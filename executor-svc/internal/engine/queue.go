package engine

import (
	"sync"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
)

// item is something for an owner: a command from the inbox, or what an effect brought.
type item struct {
	command *journal.Command
	input   flow.Input
	// turn is the owner's turn in which the effect was started; results of abandoned effects are dropped.
	turn int
}

// queue holds what effects brought, and whether somebody said that there is more in the inbox. It is unbounded: what came
// back must never be refused, and effects must never wait for their owner.
type queue struct {
	mu     sync.Mutex // guards items and poked
	items  []item
	poked  bool
	wakeup chan struct{}
}

func newQueue() *queue { return &queue{wakeup: make(chan struct{}, 1), poked: true} }

func (q *queue) put(i item) {
	q.mu.Lock()
	q.items = append(q.items, i)
	q.mu.Unlock()
	q.wake()
}

// poke says that there is more in the inbox. It is a hint: the inbox itself has the commands and their order.
func (q *queue) poke() {
	q.mu.Lock()
	q.poked = true
	q.mu.Unlock()
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.wakeup <- struct{}{}:
	default:
	}
}

func (q *queue) take() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}

func (q *queue) takePoke() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	poked := q.poked
	q.poked = false
	return poked
}

func (q *queue) isPoked() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.poked
}
