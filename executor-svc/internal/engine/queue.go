package engine

import (
	"sync"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
)

// item is an input of an owner: a command from the inbox, or the result of an action.
type item struct {
	command *journal.Command
	input   flow.Input
	// turn is the owner's turn in which the action was started; results of dropped actions are ignored.
	turn int
}

// anyTurn is the turn of inputs that no action sent.
const anyTurn = -1

// queue holds the results of actions, and ensures that only one goroutine at a time runs the owner, which means to process its inputs. It
// is unbounded: results must not be refused, and actions must not wait for each other.
type queue struct {
	mu    sync.Mutex // guards the fields below
	items []item
	// commands: the inbox may hold new commands, or the owner has to leave.
	commands bool
	running  bool
}

// newQueue returns the queue of an owner that runs.
func newQueue() queue { return queue{commands: true, running: true} }

// add queues an item. The caller then calls enter.
func (q *queue) add(i item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, i)
}

// enter makes the caller the goroutine that runs the owner; false if there is one.
func (q *queue) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running {
		return false
	}
	q.running = true
	return true
}

// exit ends running the owner; false if there is more to do.
func (q *queue) exit() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = len(q.items) > 0 || q.commands
	return !q.running
}

// noteCommands notes that the inbox may hold new commands; the inbox itself has them and their order.
func (q *queue) noteCommands() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.commands = true
}

// take removes and returns all items.
func (q *queue) take() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}

func (q *queue) takeCommandsNoted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	noted := q.commands
	q.commands = false
	return noted
}

func (q *queue) commandsNoted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.commands
}
