package coding

import (
	"fmt"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/step"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	// maxCallsAtOnce is how many calls of a thought run at once, if they only read.
	maxCallsAtOnce = 8
	// maxCalls is how many calls of a thought are made.
	maxCalls = 32
)

// think lets the planner think about the lane's subtask, unless a limit is reached.
func (r *rules) think(l step.Lane) {
	limit := l.Task.Head.GetPlanOptions().GetMaxLoops()
	if l.State.GetLoops() >= limit {
		r.endSubtask(l, failed, fmt.Sprintf("The limit of %d thoughts was reached.", limit))
		return
	}
	l.State.Loops++
	r.thinkAgain(l)
}

// thinkAgain starts a new thought, also in place of one that broke off.
func (r *rules) thinkAgain(l step.Lane) {
	newThought(l)
	l.State.MaxRunTime = l.Task.Head.GetPlanOptions().GetMaxSubtaskRunTime().AsDuration().Nanoseconds()
	l.Ask(phaseThink, flow.Think{Observation: r.observation(l)})
}

// newThought gives the lane's next pieces of a thought a new number.
func newThought(l step.Lane) {
	l.Changed()
	l.State.Thought++
	l.State.ThoughtBytes = 0
}

// observation returns what the planner has to know about the lane's subtask and its history does not show.
func (r *rules) observation(l step.Lane) string {
	switch s := r.subtask(l.State.GetSubtaskId()); {
	case s.GetUnmade() > 0:
		return step.Plural(s.GetUnmade(), "call") + " of the last thought not made: a call before failed or was refused, or there were too many."
	case s.GetIdle():
		return "The last thought called no tool and did not say that the subtask is done. Call a tool, or say that it is done."
	}
	return ""
}

// thinking records a piece of a thought.
func thinking(l step.Lane, text string) {
	if text == "" {
		return
	}
	l.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_Thought{
		Thought: &storagev1.Thought{Number: l.State.GetThought(), Offset: l.State.GetThoughtBytes(), Text: text, Loops: l.State.GetLoops()},
	}})
	l.State.ThoughtBytes += uint64(len(text))
}

// thought continues after a thought or a reflection: the subtask ends, its calls are made, or the planner thinks or reflects.
func (r *rules) thought(l step.Lane, in flow.Thought) {
	thinking(l, in.Text)
	if in.Err != nil {
		r.endSubtask(l, failed, in.Err.GetErrMsg())
		return
	}
	if in.Reflection != nil {
		l.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_Reflection{Reflection: in.Reflection}})
	}
	if in.Change != nil {
		r.changePlan(l, in.Change)
	}
	s := r.subtask(l.State.GetSubtaskId())
	wasIdle := s.GetIdle()
	s.Unmade, s.Idle = 0, false
	switch {
	case in.Reflection.GetDone():
		r.endSubtask(l, completed, in.Reflection.GetSummary())
	case len(in.Steps) > 0:
		r.act(l, in.Steps)
	case in.Reflection == nil && l.State.GetPhase() == phaseThink:
		s.Idle = wasIdle
		l.Ask(phaseReflect, flow.Reflect{})
	case wasIdle:
		r.endSubtask(l, failed, in.Reflection.GetSummary())
	default:
		s.Idle = true
		r.think(l)
	}
}

// act makes the calls of a thought.
func (r *rules) act(l step.Lane, steps []*flow.PlannedStep) {
	for i, p := range steps {
		if i == maxCalls {
			r.subtask(l.State.GetSubtaskId()).Unmade = uint32(len(steps) - i)
			break
		}
		l.State.Queue = append(l.State.Queue, &storagev1.QueuedStep{Step: step.NewStep(p), Problem: p.Problem})
	}
	r.next(l)
}

// next makes the lane's next calls: several at once if they only read, else one. If there are none, the planner thinks.
func (r *rules) next(l step.Lane) {
	if spent := l.SpentRunTime(); spent != "" {
		r.endSubtask(l, failed, runTimeSpent(spent))
		return
	}
	queue, n := l.State.GetQueue(), 0
	for n < min(len(queue), maxCallsAtOnce) && queue[n].GetStep().GetEffect() == commonv1.Effect_EFFECT_READ {
		n++
	}
	switch {
	case len(queue) == 0:
		r.think(l)
		return
	case n < 2:
		l.State.Queue = queue[1:]
		l.Begin(queue[0].GetStep(), queue[0].GetProblem())
		return
	}
	l.State.Queue = queue[n:]
	l.Idle()
	var lanes []step.Lane
	for range n { // all are opened before the first begins, which may end at once
		c := l.OpenLane(l.State.GetSubtaskId())
		c.State.Parent, c.State.MaxRunTime, c.State.RunTime = l.State.GetId(), l.State.GetMaxRunTime(), l.State.GetRunTime()
		lanes = append(lanes, c)
	}
	for i, c := range lanes {
		if flow.LaneOf(l.Checkpoint, c.State.GetId()) != nil { // the call before may have ended the task
			c.Begin(queue[i].GetStep(), queue[i].GetProblem())
		}
	}
}

// callEnded continues after a call of the lane.
func (r *rules) callEnded(l step.Lane) {
	l.State.Step = nil
	if l.State.GetParent() == 0 {
		r.next(l)
		return
	}
	parent := r.subtaskLane(l)
	l.Idle() // stops its run time
	parent.State.RunTime = max(parent.State.GetRunTime(), l.State.GetRunTime())
	l.Close()
	switch {
	case len(r.callLanes(parent)) > 0:
	case parent.State.GetCancelRequested():
		r.Stopped(parent, parent.State.GetCancelReason())
	default:
		r.next(parent)
	}
}

// callLanes returns the lanes that were opened for calls of the lane.
func (r *rules) callLanes(l step.Lane) (lanes []step.Lane) {
	for _, c := range l.Lanes() {
		if c.State.GetParent() == l.State.GetId() && c.State.GetParent() != 0 {
			lanes = append(lanes, c)
		}
	}
	return lanes
}

// dropQueue drops the calls of the lane's subtask that were not made, because one before them failed or was refused.
func (r *rules) dropQueue(l step.Lane) {
	l = r.subtaskLane(l)
	r.subtask(l.State.GetSubtaskId()).Unmade += uint32(len(l.State.GetQueue()))
	l.State.Queue = nil
}

// endSubtask ends the lane's subtask and the lane, and starts what can start now.
func (r *rules) endSubtask(l step.Lane, to executorv1.SubtaskStatus, summary string) {
	l.Go()
	l.State.Step = nil
	r.end(l.State.GetSubtaskId(), to, summary)
	l.Close()
	r.work(l.Draft)
}

// stopSubtask stops the calls of a subtask and then ends it: as FAILED if failing is true, else as CANCELLED.
func (r *rules) stopSubtask(l step.Lane, reason string, failing bool) {
	r.subtask(l.State.GetSubtaskId()).Failing = failing
	lanes := r.callLanes(l)
	if l.State.GetPhase() != storagev1.Phase_PHASE_CALL { // else Cancel notes it, and stops the call
		l.State.CancelRequested, l.State.CancelReason = true, reason
	}
	if len(lanes) == 0 {
		l.Cancel(reason)
		return
	}
	for _, c := range lanes {
		c.Cancel(reason)
	}
}

// laneOf returns the lane that works on a subtask.
func laneOf(d *step.Draft, id string) (step.Lane, bool) {
	for _, l := range d.Lanes() {
		if l.State.GetSubtaskId() == id && l.State.GetParent() == 0 {
			return l, true
		}
	}
	return step.Lane{}, false
}

func runTimeSpent(spent string) string { return "Its limit of " + spent + " is spent." }
