package step

import (
	"slices"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Draft is a transition under construction. Every change of a status goes through SetStatus or setStepStatus, which check the tables of
// package state. After a refusal, transition returns the first error, and the draft is discarded.
type Draft struct {
	Task       *flow.Task
	Checkpoint *storagev1.Checkpoint // Task.State
	rules      Rules
	facts      []*storagev1.Fact
	actions    []flow.LaneAction
	unchanged  bool
	// stopDue reports that a wait was opened, or that the task began to wait.
	stopDue bool
	err     error
}

// Lane is a lane in a draft.
type Lane struct {
	*Draft
	State *storagev1.Lane
}

func newDraft(t *flow.Task, rules Rules) *Draft {
	return &Draft{Task: t, Checkpoint: t.State, rules: rules}
}

// Lane returns the lane with this id. If there is none, it refuses the draft and returns false.
func (d *Draft) Lane(id uint32) (Lane, bool) {
	s := flow.LaneOf(d.Checkpoint, id)
	if s == nil {
		d.Refuse(defect("task %s has no lane %d", d.Task.ID, id))
	}
	return Lane{d, s}, s != nil
}

// Lanes returns all lanes, by id.
func (d *Draft) Lanes() []Lane {
	all := make([]Lane, 0, len(d.Checkpoint.GetLanes()))
	for _, s := range d.Checkpoint.GetLanes() {
		all = append(all, Lane{d, s})
	}
	return all
}

// OpenLane adds a lane for a subtask or branch.
func (d *Draft) OpenLane(subtaskID string) Lane {
	d.Checkpoint.LaneCount++
	s := &storagev1.Lane{Id: d.Checkpoint.GetLaneCount(), SubtaskId: subtaskID}
	d.Checkpoint.Lanes = append(d.Checkpoint.Lanes, s)
	return Lane{d, s}
}

// Close removes a lane that has nothing more to do, and drops what runs in it.
func (l Lane) Close() {
	l.settleLost()
	l.actions = slices.DeleteFunc(l.actions, func(a flow.LaneAction) bool { return a.Lane == l.State.GetId() && !endsWithoutLane(a.Action) })
	l.Schedule(flow.Abandon{})
	id := l.State.GetId()
	l.Checkpoint.Lanes = slices.DeleteFunc(l.Checkpoint.GetLanes(), func(s *storagev1.Lane) bool { return s.GetId() == id })
	l.closeWaits()
}

// open reports whether the lane was not closed, for example because a lane before it has ended the task.
func (l Lane) open() bool { return flow.LaneOf(l.Checkpoint, l.State.GetId()) != nil }

// endsWithoutLane reports whether an action of a closed lane must still run.
func endsWithoutLane(a flow.Action) bool {
	_, ok := a.(flow.Withdraw)
	return ok
}

func (d *Draft) transition() (flow.Transition, error) {
	d.settleStatus()
	if d.err != nil {
		return flow.Transition{}, d.err
	}
	return flow.Transition{Facts: d.facts, Actions: d.actions, Unchanged: d.unchanged && len(d.facts) == 0}, nil
}

// settleStatus makes the task wait if no lane can go on, and records that it has stopped.
func (d *Draft) settleStatus() {
	if d.err != nil || d.ended() {
		return
	}
	if d.Checkpoint.GetStatus() == taskRunning && !d.canGoOn() {
		if len(d.Checkpoint.GetWaits()) == 0 {
			d.Refuse(defect("no lane of task %s can go on, and none waits", d.Task.ID))
			return
		}
		d.SetStatus(taskWaiting)
	}
	if d.Checkpoint.GetStatus() != taskWaiting || !d.stopDue {
		return
	}
	ids := make([]string, 0, len(d.Checkpoint.GetWaits()))
	for _, w := range d.Checkpoint.GetWaits() {
		ids = append(ids, w.GetId())
	}
	d.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_FlowStop{FlowStop: &storagev1.FlowStop{WaitIds: ids}}})
	d.stopDue = false
}

// canGoOn reports whether a lane can continue without a person.
func (d *Draft) canGoOn() bool {
	return slices.ContainsFunc(d.Checkpoint.GetLanes(), func(s *storagev1.Lane) bool {
		return s.GetPhase() != storagev1.Phase_PHASE_WAIT && s.GetPhase() != storagev1.Phase_PHASE_IDLE || Lane{d, s}.getsBudget()
	})
}

// Idle makes the lane wait for other lanes.
func (l Lane) Idle() { l.setPhase(storagev1.Phase_PHASE_IDLE) }

// Rest makes the lane wait for a person.
func (l Lane) Rest() {
	l.setPhase(storagev1.Phase_PHASE_WAIT)
	if !l.canGoOn() {
		l.SetStatus(taskWaiting)
	}
}

// Unchanged reports that the draft changes nothing, unless it adds a fact.
func (d *Draft) Unchanged() { d.unchanged = true }

// Go makes the task run.
func (d *Draft) Go() { d.SetStatus(taskRunning) }

func (d *Draft) ended() bool { return state.Ended(d.Checkpoint.GetStatus()) }

// Refuse makes the transition an error.
func (d *Draft) Refuse(err error) {
	if d.err == nil {
		d.err = err
	}
}

// defect returns the error of a state that cannot occur.
func defect(format string, args ...any) error {
	return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, format+"; this is a defect, please report it", args...)
}

// Schedule adds an action of the lane.
func (l Lane) Schedule(a flow.Action) {
	l.actions = append(l.actions, flow.LaneAction{Lane: l.State.GetId(), Action: a})
}

// Ask schedules a question in a phase.
func (l Lane) Ask(p storagev1.Phase, q flow.Question) {
	l.setPhase(p)
	l.Schedule(flow.Ask{Question: q})
}

// SetStatus moves the task to a status.
func (d *Draft) SetStatus(to executorv1.ExecutorStatus) {
	from := d.Checkpoint.GetStatus()
	if err := state.CheckTaskMove(from, to); err != nil {
		d.Refuse(err)
		return
	}
	if from != to {
		d.Checkpoint.StatusReason = ""
		d.stopDue = d.stopDue || to == taskWaiting
	}
	d.Checkpoint.Status = to
	if d.Task.Head.GetLimits().GetMaxRunTime() > 0 {
		d.countRunTime(to == taskRunning)
	}
}

// setPhase moves the lane to a phase, and counts its run time.
func (l Lane) setPhase(p storagev1.Phase) {
	l.State.Phase = p
	if l.State.GetMaxRunTime() == 0 {
		return
	}
	runs := p != storagev1.Phase_PHASE_WAIT && p != storagev1.Phase_PHASE_IDLE
	switch now := l.Task.Now.UnixNano(); {
	case runs && l.State.GetRunSince() == 0:
		l.State.RunSince = now
	case !runs:
		l.State.RunTime, l.State.RunSince = flow.RunTime(l.State, l.Task.Now), 0
	}
}

// countRunTime starts or stops counting the task's run time.
func (d *Draft) countRunTime(runs bool) {
	now := d.Task.Now.UnixNano()
	switch {
	case runs && d.Checkpoint.GetRunSince() == 0:
		d.Checkpoint.RunSince = now
	case !runs:
		d.Checkpoint.RunTime, d.Checkpoint.RunSince = flow.RunTime(d.Checkpoint, d.Task.Now), 0
	}
}

// setStepStatus moves a step to a status.
func (d *Draft) setStepStatus(s *storagev1.ActiveStep, to executorv1.StepStatus) {
	if err := state.CheckStepMove(s.GetStatus(), to); err != nil {
		d.Refuse(err)
		return
	}
	s.Status = to
}

// AddFact adds a fact with the task's status.
func (d *Draft) AddFact(f *storagev1.Fact) {
	f.Status = d.Checkpoint.GetStatus()
	d.facts = append(d.facts, f)
}

// lastFact returns the newest fact.
func (d *Draft) lastFact() *storagev1.Fact { return d.facts[len(d.facts)-1] }

// AddFact adds a fact about the lane's subtask.
func (l Lane) AddFact(f *storagev1.Fact) {
	f.SubtaskId = l.State.GetSubtaskId()
	l.Draft.AddFact(f)
}

// AddStepFact adds a fact about the lane's step.
func (l Lane) AddStepFact(f *storagev1.Fact) { l.addStepFact(l.State.GetStep(), f) }

// addStepFact adds a fact about a step, with the status of the step too.
func (d *Draft) addStepFact(s *storagev1.ActiveStep, f *storagev1.Fact) {
	f.Ordinal, f.ToolId, f.StepStatus = s.GetOrdinal(), s.GetToolId(), s.GetStatus()
	f.SubtaskId = s.GetSubtaskId()
	if _, first := f.GetKind().(*storagev1.Fact_StepInit); !first {
		f.Attempt = s.GetAttempt()
	}
	d.AddFact(f)
}

// addInputFact adds a fact that holds the step's input, and records the fact's seq.
func (d *Draft) addInputFact(s *storagev1.ActiveStep, f *storagev1.Fact) {
	d.addStepFact(s, f)
	s.InputSeq = d.Checkpoint.GetLastSeq() + uint64(len(d.facts))
}

// activeStep returns the lane's step. If there is none, it refuses the draft and returns nil.
func (l Lane) activeStep() *storagev1.ActiveStep {
	if l.State.GetStep() == nil {
		l.Refuse(defect("lane %d of task %s has no current step in phase %s", l.State.GetId(), l.Task.ID, l.State.GetPhase()))
	}
	return l.State.GetStep()
}

// activeStepWith returns the lane's step if it has this ordinal; else it refuses the draft and returns nil.
func (l Lane) activeStepWith(ordinal uint32) *storagev1.ActiveStep {
	s := l.activeStep()
	if s == nil {
		return nil
	}
	if s.GetOrdinal() != ordinal {
		l.Refuse(defect("a result of %s arrived while %s is current", flow.StepID(ordinal), flow.StepID(s.GetOrdinal())))
		return nil
	}
	return s
}

// FailTask ends the task with an error, once all running calls have ended.
func (d *Draft) FailTask(e *storagev1.ErrorNote) {
	d.end(taskFailed, e, &storagev1.Fact{Kind: &storagev1.Fact_FlowFailed{FlowFailed: e}})
}

// AddUsage adds to the task's usage.
func (d *Draft) AddUsage(u *storagev1.Usage) {
	d.Checkpoint.Usage = flow.AddUsage(d.Checkpoint.GetUsage(), u)
}

func isRepeatable(s *storagev1.ActiveStep) bool {
	return s.GetEffect() == commonv1.Effect_EFFECT_READ || s.GetIdempotent()
}
