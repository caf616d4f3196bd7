package engine

import (
	"context"

	"pawl.dev/executor-svc/internal/flow"
)

// laneRun is what runs in a lane of a task.
type laneRun struct {
	// generation is incremented when what runs in the lane is dropped, so that its late results are ignored. The actions of a generation share
	// ctx, cancel and emit.
	generation int
	ctx        context.Context
	cancel     context.CancelFunc
	emit       func(flow.Input)
	// calling is true while a Call or Attach runs; attached is true if it is an Attach. callStopped reports that the running call was stopped
	// because a run time is over.
	calling, attached, callStopped bool
}

// lane returns what runs in a lane. A lane that was not used yet gets its first generation.
func (o *owner) lane(id uint32) *laneRun {
	l := o.lanes[id]
	if l == nil {
		l = &laneRun{}
		o.lanes[id] = l
		o.newGeneration(id, l)
	}
	return l
}

// newGeneration makes the context and the emit function of the lane's next actions.
func (o *owner) newGeneration(id uint32, l *laneRun) {
	generation := l.generation
	l.ctx, l.cancel = context.WithCancel(o.base)
	l.emit = func(in flow.Input) {
		i := item{lane: id, input: in, generation: generation}
		switch in.(type) {
		case flow.Progress, flow.McpTask, flow.Text, flow.Thinking:
			o.deliver(i)
		default: // no delivery yet: the next Text, or runActions at the end of the action, runs the owner
			o.in.add(i)
		}
	}
}

// abandon drops what runs in a lane. A lane that the batch has closed is forgotten; its late results name a lane that does not exist.
func (o *owner) abandon(b *batch, id uint32) {
	l := o.lane(id)
	l.cancel()
	if flow.LaneOf(b.state, id) == nil {
		delete(o.lanes, id)
		return
	}
	l.generation, l.calling = l.generation+1, false
	o.newGeneration(id, l)
}

// current reports whether an input is from an action that was not dropped, or from no action.
func (o *owner) current(i item) bool {
	if i.generation == noAction {
		return true
	}
	l := o.lanes[i.lane]
	return l != nil && l.generation == i.generation
}

// cancelActions ends all running actions.
func (o *owner) cancelActions() {
	for _, l := range o.lanes {
		l.cancel()
	}
}

// calling returns the number of lanes in which a tool call runs.
func (o *owner) calling() (n int) {
	for _, l := range o.lanes {
		if l.calling {
			n++
		}
	}
	return n
}
