package coding

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/step"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	phaseCreatePlan = storagev1.Phase_PHASE_CREATE_PLAN
	phaseThink      = storagev1.Phase_PHASE_THINK
	phaseReflect    = storagev1.Phase_PHASE_REFLECT
	phaseAnswer     = storagev1.Phase_PHASE_ANSWER
	phaseContinue   = storagev1.Phase_PHASE_PLAN // a fork continues with its plan
)

// rules are the rules of the flow for one input, with the task's plan.
type rules struct{ graph }

var _ step.Rules = (*rules)(nil)

// Kind implements step.Rules.
func (*rules) Kind() string { return Kind }

// Apply implements step.Rules.
func (r *rules) Apply(l step.Lane, in flow.Input) bool {
	switch in := in.(type) {
	case flow.PlanCreated:
		r.planCreated(l, in)
	case flow.Thinking:
		if in.Again {
			newThought(l)
		}
		thinking(l, in.Text)
	case flow.Thought:
		r.thought(l, in)
	case flow.Text:
		l.AddText(in.Text)
	case flow.Answered:
		in.NotReached = in.NotReached || !r.reached()
		l.Answered(in)
	default:
		return false
	}
	return true
}

// Resume implements step.Rules. A thought or an answer that broke off is started again.
func (r *rules) Resume(l step.Lane) {
	switch l.State.GetPhase() {
	case phaseCreatePlan:
		l.Ask(phaseCreatePlan, flow.CreatePlan{})
	case phaseContinue:
		r.work(l.Draft)
	case phaseThink:
		r.thinkAgain(l)
	case phaseReflect:
		l.Ask(phaseReflect, flow.Reflect{})
	case phaseAnswer:
		l.BeginAnswer(l.Checkpoint.GetCutShort())
	}
}

// Observe implements step.Rules: it records the files that the call changed.
func (*rules) Observe(l step.Lane, _ *storagev1.ActiveStep, output string) {
	for _, c := range filesChanged(output) {
		l.AddStepFact(&storagev1.Fact{Kind: &storagev1.Fact_FileChanged{FileChanged: c}})
	}
}

// StepEnded implements step.Rules.
func (r *rules) StepEnded(l step.Lane, _ *storagev1.ActiveStep, _ *flow.Planned) {
	r.subtaskLane(l).State.Failures = 0
	r.callEnded(l)
}

// subtaskLane returns the lane that works on the subtask of a lane: its parent, or itself.
func (r *rules) subtaskLane(l step.Lane) step.Lane {
	if parent := flow.LaneOf(l.Checkpoint, l.State.GetParent()); l.State.GetParent() != 0 && parent != nil {
		return step.Lane{Draft: l.Draft, State: parent}
	}
	return l
}

// Recover implements step.Rules. The planner sees a failed call in its next thought, and corrects the input or takes another tool. If a
// permission is missing, a person is asked, except with CONFIRM_NEVER.
func (r *rules) Recover(l step.Lane, s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) executorv1.Recovery {
	limits := l.Task.Head.GetLimits()
	switch class := flow.ClassOf(e); {
	case class == executorv1.ErrorClass_ERROR_CLASS_PERMISSION && e.GetReason() != commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED &&
		o != commonv1.Outcome_OUTCOME_UNKNOWN && l.Task.Head.GetConfirm() != executorv1.Confirm_CONFIRM_NEVER && s.GetAttempt() < limits.GetMaxAttempts():
		return executorv1.Recovery_RECOVERY_ASK
	case class == executorv1.ErrorClass_ERROR_CLASS_PERMANENT && l.State.GetParent() == 0 && l.State.GetFailures()+1 >= limits.GetMaxFailedSteps():
		return executorv1.Recovery_RECOVERY_STOP
	}
	return executorv1.Recovery_RECOVERY_CONTINUE
}

// StepFailed implements step.Rules.
func (r *rules) StepFailed(l step.Lane, s *storagev1.ActiveStep) {
	l.Checkpoint.ErrorCount++
	stop := r.Recover(l, s, s.GetError(), s.GetOutcome()) == executorv1.Recovery_RECOVERY_STOP
	r.subtaskLane(l).State.Failures++
	if stop {
		r.endSubtask(l, failed, s.GetError().GetErrMsg())
		return
	}
	r.dropQueue(l)
	r.callEnded(l)
}

// Rejected implements step.Rules: the subtask goes on without the refused step; a refused plan cancels the task.
func (r *rules) Rejected(l step.Lane, reason, waitID string) {
	if l.State.GetStep() == nil {
		l.EndCancelled(reason, waitID)
		return
	}
	l.Go()
	if reason != step.CancelledByUser {
		reason = step.CancelledByUser + ": " + reason
	}
	e := &storagev1.ErrorNote{ErrMsg: reason, Reason: commonv1.ErrorReason_ERROR_REASON_REJECTED}
	l.FailWaitingStep(l.State.GetStep(), e, waitID, executorv1.Recovery_RECOVERY_CONTINUE)
	r.dropQueue(l)
	r.callEnded(l)
}

// WaitExpired implements step.Rules: the subtask fails, or the task if its plan was not confirmed.
func (r *rules) WaitExpired(l step.Lane, e *storagev1.ErrorNote) {
	switch {
	case l.State.GetId() == 0:
		l.FailTask(e)
	case l.State.GetParent() == 0:
		r.endSubtask(l, failed, e.GetErrMsg())
	default:
		l.Go()
		l.State.Step = nil
		r.stopSubtask(r.subtaskLane(l), e.GetErrMsg(), true)
	}
}

// Stopped implements step.Rules.
func (r *rules) Stopped(l step.Lane, reason string) {
	switch {
	case l.State.GetParent() != 0:
		r.callEnded(l)
	case l.SpentRunTime() != "" && !l.State.GetCancelRequested():
		r.endSubtask(l, failed, runTimeSpent(l.SpentRunTime()))
	case r.subtask(l.State.GetSubtaskId()).GetFailing():
		r.endSubtask(l, failed, reason)
	default:
		r.endSubtask(l, cancelled, reason)
	}
}

// CancelSubtask implements step.Rules. A subtask that was cancelled before stays as it is.
func (r *rules) CancelSubtask(d *step.Draft, id, reason string) {
	s := r.subtask(id)
	if s == nil {
		d.Refuse(step.NoSubtaskError(id))
		return
	}
	if state.SubtaskEnded(s.GetStatus()) {
		if d.Unchanged(); s.GetStatus() != cancelled {
			d.Refuse(errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_STATE_TRANSITION,
				"the subtask %q has already ended: %s", id, strings.TrimPrefix(s.GetStatus().String(), "SUBTASK_STATUS_")))
		}
		return
	}
	if l, running := laneOf(d, id); running {
		r.stopSubtask(l, reason, false)
		return
	}
	r.end(id, cancelled, reason)
	r.record(d)
	if !slices.ContainsFunc(d.Checkpoint.GetWaits(), func(w *storagev1.Wait) bool { return w.GetKind() == executorv1.WaitKind_WAIT_KIND_PLAN }) {
		r.work(d)
	}
}
