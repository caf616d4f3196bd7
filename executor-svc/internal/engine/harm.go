package engine

import (
	"time"

	"pawl.dev/executor-svc/internal/flow"
)

const (
	// harmlessAfter is how long a process lives on with a task that it took up until the next crash is not the task's doing.
	harmlessAfter = 30 * time.Second
	// harmlessFollowing is the same where all that was done for the task is to follow a call that runs in a pool.
	harmlessFollowing = time.Second
	// someTakeups is how many without progress are left as they are: the usual crash costs no further commit.
	someTakeups = 1
)

// watchHarm has it noted when a task that was taken up again and again turns out to do its host no harm.
func (o *owner) watchHarm() {
	switch {
	case o.state.GetTakeups() <= someTakeups:
		if o.harmless != nil {
			o.harmless.Stop()
			o.harmless = nil
		}
	case o.harmless != nil:
	case o.calling && o.following:
		o.harmless = time.AfterFunc(harmlessFollowing, o.noHarm)
	default:
		o.harmless = time.AfterFunc(harmlessAfter, o.noHarm)
	}
}

func (o *owner) noHarm() { o.put(item{input: flow.Harmless{}, turn: anyTurn}) }

// left notes that the process stops in an orderly way, where the task has not got on since it was taken up.
func (o *owner) left() {
	if o.state.GetTakeups() > 0 && !o.idle() {
		o.move([]item{{turn: o.turn, input: flow.Harmless{}}})
	}
}
