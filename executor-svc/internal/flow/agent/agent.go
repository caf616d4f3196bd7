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

const (
	taskInit      = executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT
	taskWaiting   = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	taskRunning   = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	taskSuccess   = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
	taskFailed    = executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR
	taskCancelled = executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED

	stepInit      = executorv1.StepStatus_STEP_STATUS_INIT
	stepWaiting   = executorv1.StepStatus_STEP_STATUS_WAITING
	stepRunning   = executorv1.StepStatus_STEP_STATUS_RUNNING
	stepSuccess   = executorv1.StepStatus_STEP_STATUS_SUCCESS
	stepError     = executorv1.StepStatus_STEP_STATUS_ERROR
	stepParam     = executorv1.StepStatus_STEP_STATUS_PARAM
	stepCancelled = executorv1.StepStatus_STEP_STATUS_CANCELLED

	outcomeKnown       = commonv1.Outcome_OUTCOME_KNOWN
	outcomeNotExecuted = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	outcomeUnknown     = commonv1.Outcome_OUTCOME_UNKNOWN

	waitApproval = executorv1.WaitKind_WAIT_KIND_APPROVAL
	waitParams   = executorv1.WaitKind_WAIT_KIND_PARAMS
	waitOutcome  = executorv1.WaitKind_WAIT_KIND_OUTCOME
	waitPause    = executorv1.WaitKind_WAIT_KIND_PAUSE
	waitInput    = executorv1.WaitKind_WAIT_KIND_INPUT
)

// Flow is the `agent` flow.
type Flow struct{}

var _ flow.Flow = Flow{}

// Apply implements flow.Flow.
func (Flow) Apply(t *flow.Task, in flow.Input) (flow.Transition, error) {
	d := &draft{t: t, state: t.State}
	if state.Ended(d.state.GetStatus()) {
		return flow.Transition{}, endedError(d.state.GetStatus())
	}
	d.apply(in)
	if advances(in) {
		d.state.Recoveries, d.state.StatusReason = 0, ""
	}
	d.applyPauseAndBudget()
	return d.transition()
}

// Resume implements flow.Flow: it schedules the phase's action again, because the result was not recorded. It does not repeat a call that
// may have been sent, but attaches to it. A task that was recovered too often fails.
func (Flow) Resume(t *flow.Task, recovered bool) (flow.Transition, error) {
	d := &draft{t: t, state: t.State}
	if state.Ended(d.state.GetStatus()) || d.state.GetPhase() == storagev1.Phase_PHASE_WAIT {
		return flow.Transition{Unchanged: true}, nil
	}
	d.countRecovery(recovered)
	if limit := d.t.Head.GetLimits().GetMaxRecoveries(); limit > 0 && d.state.GetRecoveries() > limit {
		d.failNoProgress(limit)
		return d.transition()
	}
	d.unchanged = !recovered && d.state.GetPhase() != storagev1.Phase_PHASE_ANSWER
	d.resume()
	d.applyPauseAndBudget()
	return d.transition()
}

// Fail implements flow.Flow.
func (Flow) Fail(t *flow.Task, e *storagev1.ErrorNote) (flow.Transition, error) {
	d := &draft{t: t, state: t.State}
	d.schedule(flow.Abandon{})
	d.closeAttempt(e)
	d.failTask(e)
	return d.transition()
}

func (d *draft) apply(in flow.Input) {
	switch in := in.(type) {
	case flow.Command:
		d.applyCommand(in.Command)
	case flow.Timeout:
		d.timeout()
	case flow.RecoverySettled:
		d.recoverySettled()
	case flow.Blocked:
		d.blocked(in)
	case flow.Begun:
		d.begun(in)
	case flow.Planned:
		d.planned(in)
	case flow.Derived:
		d.derived(in)
	case flow.Diagnosed:
		d.diagnosed(in)
	case flow.ToolRefreshed:
		d.toolRefreshed(in)
	case flow.Text:
		d.text(in)
	case flow.Answered:
		d.answered(in)
	default:
		d.applyCallInput(in)
	}
}

// applyCallInput applies an input about a tool call.
func (d *draft) applyCallInput(in flow.Input) {
	switch in := in.(type) {
	case flow.Progress:
		d.progress(in)
	case flow.Called:
		d.called(in)
	case flow.Moved:
		d.moved(in)
	case flow.Elicited:
		d.elicited(in)
	case flow.Undelivered:
		d.undelivered(in)
	case flow.McpTask:
		d.mcpTask(in)
	case flow.NotStarted:
		d.notStarted(in)
	default:
		d.refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the agent flow does not know %T", in))
	}
}

// advances reports whether an input shows that the task makes progress, which resets its recoveries and its status reason. flow.Progress does
// not count, because it comes from the tool.
func advances(in flow.Input) bool {
	switch in.(type) {
	case flow.Begun, flow.Planned, flow.Called, flow.Elicited, flow.Derived, flow.Diagnosed, flow.ToolRefreshed, flow.Answered:
		return true
	}
	return false
}

// resume schedules the action that the task's phase waits for.
func (d *draft) resume() {
	switch d.state.GetPhase() {
	case storagev1.Phase_PHASE_BEGIN:
		d.schedule(flow.Begin{})
	case storagev1.Phase_PHASE_PLAN:
		d.schedule(flow.Plan{})
	case storagev1.Phase_PHASE_START:
		s := d.activeStep()
		if s == nil {
			return
		}
		d.call(s, "")
		return
	case storagev1.Phase_PHASE_CALL:
		d.resumeCall()
		return
	case storagev1.Phase_PHASE_DERIVE:
		d.scheduleFor(func(s *storagev1.ActiveStep) flow.Action { return flow.Derive{Ordinal: s.GetOrdinal()} })
	case storagev1.Phase_PHASE_DIAGNOSE:
		d.scheduleFor(diagnoseAction)
	case storagev1.Phase_PHASE_REFRESH_TOOL:
		d.scheduleFor(func(s *storagev1.ActiveStep) flow.Action { return flow.RefreshTool{Ordinal: s.GetOrdinal()} })
	case storagev1.Phase_PHASE_FILL:
		d.scheduleFor(func(s *storagev1.ActiveStep) flow.Action { return flow.Fill{Ordinal: s.GetOrdinal()} })
	case storagev1.Phase_PHASE_ANSWER:
		d.beginAnswer(d.state.GetCutShort())
	}
}

// scheduleFor schedules an action for the active step.
func (d *draft) scheduleFor(action func(*storagev1.ActiveStep) flow.Action) {
	if s := d.activeStep(); s != nil {
		d.schedule(action(s))
	}
}

func endedError(s executorv1.ExecutorStatus) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED,
		"the task has ended (%s); start a new one", s.String()[len("EXECUTOR_STATUS_"):])
}
