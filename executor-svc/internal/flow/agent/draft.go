package agent

import (
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// draft is a transition under construction. Every change of a status goes through setStatus or setStepStatus, which check the tables of
// package state. After a refusal, transition returns the first error, and the draft is discarded.
type draft struct {
	t         *flow.Task
	state     *storagev1.Checkpoint // t.State
	facts     []*storagev1.Fact
	actions   []flow.Action
	unchanged bool
	err       error
}

func (d *draft) transition() (flow.Transition, error) {
	if d.err != nil {
		return flow.Transition{}, d.err
	}
	return flow.Transition{Facts: d.facts, Actions: d.actions, Unchanged: d.unchanged && len(d.facts) == 0}, nil
}

// refuse makes transition return an error.
func (d *draft) refuse(err error) {
	if d.err == nil {
		d.err = err
	}
}

// schedule adds actions for the engine.
func (d *draft) schedule(actions ...flow.Action) { d.actions = append(d.actions, actions...) }

// setStatus moves the task to a status.
func (d *draft) setStatus(to executorv1.ExecutorStatus) {
	if err := state.CheckTaskMove(d.state.GetStatus(), to); err != nil {
		d.refuse(err)
		return
	}
	if d.state.GetStatus() != to {
		d.state.StatusReason = ""
	}
	d.state.Status = to
	if d.t.Head.GetLimits().GetMaxRunTime() > 0 {
		d.countRunTime(to == taskRunning)
	}
}

// countRunTime starts or stops counting the task's run time.
func (d *draft) countRunTime(runs bool) {
	now := d.t.Now.UnixNano()
	switch {
	case runs && d.state.GetRunSince() == 0:
		d.state.RunSince = now
	case !runs:
		d.state.RunTime, d.state.RunSince = flow.RunTime(d.state, d.t.Now), 0
	}
}

// setStepStatus moves a step to a status.
func (d *draft) setStepStatus(s *storagev1.ActiveStep, to executorv1.StepStatus) {
	if err := state.CheckStepMove(s.GetStatus(), to); err != nil {
		d.refuse(err)
		return
	}
	s.Status = to
}

// addFact adds a fact with the task's status.
func (d *draft) addFact(f *storagev1.Fact) {
	f.Status = d.state.GetStatus()
	d.facts = append(d.facts, f)
}

// addStepFact adds a fact about a step, with the status of the step too.
func (d *draft) addStepFact(s *storagev1.ActiveStep, f *storagev1.Fact) {
	f.Ordinal, f.ToolId, f.StepStatus = s.GetOrdinal(), s.GetToolId(), s.GetStatus()
	f.SubtaskId = s.GetSubtaskId()
	if _, first := f.GetKind().(*storagev1.Fact_StepInit); !first {
		f.Attempt = s.GetAttempt()
	}
	d.addFact(f)
}

// addInputFact adds a fact that holds the step's input, and records the fact's seq.
func (d *draft) addInputFact(s *storagev1.ActiveStep, f *storagev1.Fact) {
	d.addStepFact(s, f)
	s.InputSeq = d.state.GetLastSeq() + uint64(len(d.facts))
}

// activeStep returns the active step. If there is none, it refuses the draft and returns nil.
func (d *draft) activeStep() *storagev1.ActiveStep {
	if len(d.state.GetActiveSteps()) == 0 {
		d.refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"task %s has no current step in phase %s; this is a defect, please report it", d.t.ID, d.state.GetPhase()))
		return nil
	}
	return d.state.GetActiveSteps()[0]
}

// activeStepWith returns the active step if it has this ordinal; else it refuses the draft and returns nil.
func (d *draft) activeStepWith(ordinal uint32) *storagev1.ActiveStep {
	s := d.activeStep()
	if s == nil {
		return nil
	}
	if s.GetOrdinal() != ordinal {
		d.refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"a result of %s arrived while %s is current; this is a defect, please report it", flow.StepID(ordinal), flow.StepID(s.GetOrdinal())))
		return nil
	}
	return s
}

// removeStep removes a step that has ended from the active steps.
func (d *draft) removeStep(s *storagev1.ActiveStep) {
	for i, a := range d.state.GetActiveSteps() {
		if a == s {
			d.state.ActiveSteps = append(d.state.ActiveSteps[:i], d.state.ActiveSteps[i+1:]...)
			return
		}
	}
}

// endTask ends the task with a final status and the fact that reports it.
func (d *draft) endTask(to executorv1.ExecutorStatus, f *storagev1.Fact) {
	if state.Ended(d.state.GetStatus()) {
		d.refuse(endedError(d.state.GetStatus()))
		return
	}
	d.setStatus(to)
	d.state.Phase = storagev1.Phase_PHASE_END
	d.state.ActiveSteps, d.state.Waits = nil, nil
	d.state.EndTime = d.t.Now.UnixNano()
	d.addFact(f)
}

func (d *draft) failTask(e *storagev1.ErrorNote) {
	d.state.Error = e
	d.endTask(taskFailed, &storagev1.Fact{Kind: &storagev1.Fact_FlowFailed{FlowFailed: e}})
}

func (d *draft) addUsage(u *storagev1.Usage) { d.state.Usage = flow.AddUsage(d.state.GetUsage(), u) }

// settleReservation replaces the reservation of a planner call with the call's usage.
func (d *draft) settleReservation(u *storagev1.Usage) {
	d.state.ReservedModelCalls = 0
	d.addUsage(u)
}

// countReservation counts a reserved planner call as made.
func (d *draft) countReservation() {
	if n := d.state.GetReservedModelCalls(); n > 0 {
		d.settleReservation(&storagev1.Usage{ModelCalls: n})
	}
}

func isRepeatable(s *storagev1.ActiveStep) bool {
	return s.GetEffect() == commonv1.Effect_EFFECT_READ || s.GetIdempotent()
}
