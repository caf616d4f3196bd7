package agent

import (
	"fmt"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/step"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	phaseBegin  = storagev1.Phase_PHASE_BEGIN
	phasePlan   = storagev1.Phase_PHASE_PLAN
	phaseIdle   = storagev1.Phase_PHASE_IDLE
	phaseAnswer = storagev1.Phase_PHASE_ANSWER
)

// Flow is the `agent` flow.
type Flow struct{ step.Machine }

var _ flow.Flow = Flow{}

// New returns the flow.
func New() Flow { return Flow{step.Machine{Rules: rules{}}} }

// PlanOptions implements flow.Flow.
func (Flow) PlanOptions(*executorv1.PlanOptions) *executorv1.PlanOptions { return nil }

// Memory implements flow.Flow (A1).
func (Flow) Memory(*storagev1.TaskHead) flow.Memory { return flow.Memory{Turns: 3} }

// Start implements flow.Flow.
func (Flow) Start() *storagev1.Checkpoint { return step.NewCheckpoint(phaseBegin) }

// Fork implements flow.Flow: the fork plans the next step. Branches that had not ended are planned again.
func (Flow) Fork(f flow.Fork) (*storagev1.Checkpoint, *storagev1.Fact) {
	c, fact := step.Fork(f)
	c.Lanes = []*storagev1.Lane{{Phase: phasePlan}}
	if c.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT {
		c.Lanes[0].Phase = phaseBegin
	}
	return c, fact
}

// rules are the rules of the flow.
type rules struct{}

// Kind implements step.Rules.
func (rules) Kind() string { return "agent" }

// Apply implements step.Rules.
func (rules) Apply(l step.Lane, in flow.Input) bool {
	switch in := in.(type) {
	case flow.Begun:
		begun(l, in)
	case flow.Planned:
		planned(l, in)
	case flow.Text:
		l.AddText(in.Text)
	case flow.Answered:
		l.Answered(in)
	default:
		return false
	}
	return true
}

// Resume implements step.Rules.
func (rules) Resume(l step.Lane) {
	switch l.State.GetPhase() {
	case phaseBegin:
		l.Ask(phaseBegin, flow.Begin{})
	case phasePlan:
		l.Ask(phasePlan, flow.Plan{})
	case phaseAnswer:
		l.BeginAnswer(l.Checkpoint.GetCutShort())
	}
}

// Observe implements step.Rules.
func (rules) Observe(step.Lane, *storagev1.ActiveStep, string) {}

// StepEnded implements step.Rules.
func (rules) StepEnded(l step.Lane, _ *storagev1.ActiveStep, next *flow.Planned) {
	if next != nil {
		l.State.Phase = phasePlan
		planned(l, *next)
		return
	}
	l.Ask(phasePlan, flow.Plan{})
}

// Recover implements step.Rules.
func (rules) Recover(l step.Lane, s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) executorv1.Recovery {
	confirm, limits := l.Task.Head.GetConfirm(), l.Task.Head.GetLimits()
	switch {
	case o == commonv1.Outcome_OUTCOME_UNKNOWN || !flow.InputMayHelp(e):
	case confirm == executorv1.Confirm_CONFIRM_ALWAYS || confirm == executorv1.Confirm_CONFIRM_UNSPECIFIED:
		return executorv1.Recovery_RECOVERY_ASK
	case l.Task.Head.GetPlaybook() != "": // it gives the input, and says what comes after a failure
	case s.GetAttempt() < limits.GetMaxAttempts():
		return executorv1.Recovery_RECOVERY_CORRECT_INPUT
	}
	if l.Checkpoint.GetErrorCount()+1 >= limits.GetMaxFailedSteps() {
		return executorv1.Recovery_RECOVERY_STOP
	}
	return executorv1.Recovery_RECOVERY_CONTINUE
}

// StepFailed implements step.Rules: it plans the next step, unless too many steps have failed.
func (rules) StepFailed(l step.Lane, s *storagev1.ActiveStep) {
	l.Checkpoint.ErrorCount++
	if limit := l.Task.Head.GetLimits().GetMaxFailedSteps(); l.Checkpoint.GetErrorCount() >= limit {
		l.FailTask(&storagev1.ErrorNote{
			ErrMsg:   step.Plural(limit, "step") + " failed, which is the limit; the last error was: " + s.GetError().GetErrMsg(),
			DataJson: s.GetError().GetDataJson(),
			Reason:   commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
		})
		return
	}
	l.State.Step = nil
	l.Ask(phasePlan, flow.Plan{})
}

// Rejected implements step.Rules: it cancels the step and the task.
func (rules) Rejected(l step.Lane, reason, waitID string) {
	l.CancelStep(reason, waitID)
	l.EndCancelled(reason, waitID)
}

// WaitExpired implements step.Rules.
func (rules) WaitExpired(l step.Lane, e *storagev1.ErrorNote) { l.FailTask(e) }

// Stopped implements step.Rules. Lanes of this flow are neither cancelled alone nor limited in time.
func (rules) Stopped(l step.Lane, reason string) { endBranch(l, reason) }

// PlanApproved implements step.Rules. The flow has no plan that a person could approve.
func (rules) PlanApproved(l step.Lane, _ *storagev1.Approve) {
	l.Refuse(fmt.Errorf("the %s flow has no plan to approve", rules{}.Kind()))
}

// CancelSubtask implements step.Rules.
func (rules) CancelSubtask(d *step.Draft, id, _ string) { d.Refuse(step.NoSubtaskError(id)) }
