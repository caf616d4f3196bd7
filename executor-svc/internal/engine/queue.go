package engine

import (
	"slices"
	"sync"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
)

// item is something for an owner: a command, or what an effect brought.
type item struct {
	command *journal.Command
	input   flow.Input
	// turn is the owner's turn in which the effect was started; results of abandoned effects are dropped.
	turn int
}

// queue is unbounded: what came back must never be refused, and effects must never wait for their owner.
type queue struct {
	mu    sync.Mutex // guards items
	items []item
	wake  chan struct{}
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) put(i item) {
	q.mu.Lock()
	q.items = append(q.items, i)
	q.mu.Unlock()
	q.wakeAgain()
}

func (q *queue) take() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// wakeAgain makes the owner look at what is in the queue already.
func (q *queue) wakeAgain() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) has(match func(item) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.items, match)
}
