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

// anyTurn is the turn of what no effect brought.
const anyTurn = -1

// queue holds what effects brought, whether somebody said that there is more in the inbox, and whether somebody is at work on the
// task: one goroutine at a time, which looks again before it stops. The queue is unbounded: what came back must never be refused,
// and effects must never wait for each other.
type queue struct {
	mu    sync.Mutex // guards what follows
	items []item
	spare []item // what was taken last
	poked bool
	taken bool
}

// newQueue returns the queue of a new owner, who is at work.
func newQueue() queue { return queue{poked: true, taken: true} }

// add puts an item in. The caller is to enter afterwards.
func (q *queue) add(i item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, i)
}

// enter says that nobody was at work: now the caller is.
func (q *queue) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken {
		return false
	}
	q.taken = true
	return true
}

// leave says that there is nothing more to do: the caller is at work no longer.
func (q *queue) leave() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = len(q.items) > 0 || q.poked
	return !q.taken
}

// poke says that there is more in the inbox, or that the owner is to leave. It is a hint: the inbox itself has the commands and
// their order.
func (q *queue) poke() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.poked = true
}

// take returns what there is, until it is called again.
func (q *queue) take() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.spare)
	q.items, q.spare = q.spare[:0], q.items
	return q.spare
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
