package engine

import (
	"sync"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
)

// item is what an owner applies: a command from the inbox, or an input of its flow, such as the result of an action.
type item struct {
	command *journal.Command
	input   flow.Input
	// lane and generation name the run that started the action. Results of earlier generations of the lane are ignored.
	lane       uint32
	generation int
}

// noAction is the generation of inputs that are not from an action.
const noAction = -1

// queue holds inputs of an owner, and ensures that only one goroutine at a time runs the owner. It is unbounded: results must not be refused,
// and actions must not wait for each other.
type queue struct {
	mu    sync.Mutex // guards the fields below
	items []item
	// commands reports that the inbox may hold new commands, or that the owner may have to release the task.
	commands bool
	// running reports that a goroutine runs the owner.
	running bool
}

// newQueue returns a queue that its caller has entered.
func newQueue() queue { return queue{commands: true, running: true} }

// add queues an item. A caller that does not run the owner then calls enter.
func (q *queue) add(i item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, i)
}

// enter makes the caller the goroutine that runs the owner. It returns false if another goroutine does.
func (q *queue) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running {
		return false
	}
	q.running = true
	return true
}

// exit makes the caller stop running the owner. If there are inputs left, it returns false, and the caller goes on.
func (q *queue) exit() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = len(q.items) > 0 || q.commands
	return !q.running
}

// noteCommands notes that the inbox, which is in the journal, may hold new commands.
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
