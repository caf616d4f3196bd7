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
	m := &move{t: t, s: t.State}
	if state.Ended(m.s.GetStatus()) {
		return flow.Transition{}, ended(m.s.GetStatus())
	}
	m.on(in)
	if resetsRecoveries(in) {
		m.s.Recoveries, m.s.StatusReason = 0, ""
	}
	m.hold()
	return m.transition()
}

// Resume implements flow.Flow: when the next owner loads the task, an effect whose result was not recorded is run again if repeating it has
// no side effects.
func (Flow) Resume(t *flow.Task, recovered bool) (flow.Transition, error) {
	m := &move{t: t, s: t.State}
	if state.Ended(m.s.GetStatus()) || m.s.GetPhase() == storagev1.Phase_PHASE_WAIT {
		return flow.Transition{Unchanged: true}, nil
	}
	m.recover(recovered)
	if limit := m.t.Head.GetLimits().GetMaxRecoveries(); limit > 0 && m.s.GetRecoveries() > limit {
		m.failNoProgress(limit)
		return m.transition()
	}
	m.unchanged = !recovered && m.s.GetPhase() != storagev1.Phase_PHASE_ANSWER
	m.resume()
	m.hold()
	return m.transition()
}

// Fail implements flow.Flow.
func (Flow) Fail(t *flow.Task, e *storagev1.ErrorNote) (flow.Transition, error) {
	m := &move{t: t, s: t.State}
	m.schedule(flow.Abandon{})
	m.closeAttempt(e)
	m.fail(e)
	return m.transition()
}

func (m *move) on(in flow.Input) {
	switch in := in.(type) {
	case flow.Command:
		m.command(in.Command)
	case flow.Timeout:
		m.timeout()
	case flow.RecoverySettled:
		m.recoverySettled()
	case flow.Blocked:
		m.blocked(in)
	case flow.Begun:
		m.begun(in)
	case flow.Planned:
		m.planned(in)
	case flow.Derived:
		m.derived(in)
	case flow.Diagnosed:
		m.diagnosed(in)
	case flow.ToolRefreshed:
		m.toolRefreshed(in)
	case flow.Text:
		m.text(in)
	case flow.Answered:
		m.answered(in)
	default:
		m.onCall(in)
	}
}

// onCall applies an input of a tool call.
func (m *move) onCall(in flow.Input) {
	switch in := in.(type) {
	case flow.Progress:
		m.progress(in)
	case flow.Called:
		m.called(in)
	case flow.Moved:
		m.moved(in)
	case flow.Asked:
		m.asked(in)
	case flow.Undelivered:
		m.undelivered(in)
	case flow.McpTask:
		m.mcpTask(in)
	case flow.NotStarted:
		m.notStarted(in)
	default:
		m.refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the agent flow does not know %T", in))
	}
}

// resetsRecoveries reports whether an input shows that the task has advanced since its last recovery. Progress notifications of a tool
// do not.
func resetsRecoveries(in flow.Input) bool {
	switch in.(type) {
	case flow.Begun, flow.Planned, flow.Called, flow.Asked, flow.Derived, flow.Diagnosed, flow.ToolRefreshed, flow.Answered:
		return true
	}
	return false
}

// resume schedules the effect that the task's phase waits for.
func (m *move) resume() {
	switch m.s.GetPhase() {
	case storagev1.Phase_PHASE_BEGIN:
		m.schedule(flow.Begin{})
	case storagev1.Phase_PHASE_PLAN:
		m.schedule(flow.Plan{})
	case storagev1.Phase_PHASE_START:
		s := m.step()
		if s == nil {
			return
		}
		m.call(s, "")
		return
	case storagev1.Phase_PHASE_CALL:
		m.resumeCall()
		return
	case storagev1.Phase_PHASE_DERIVE:
		m.scheduleFor(func(s *storagev1.ActiveStep) flow.Effect { return flow.Derive{Ordinal: s.GetOrdinal()} })
	case storagev1.Phase_PHASE_DIAGNOSE:
		m.scheduleFor(diagnose)
	case storagev1.Phase_PHASE_REFRESH_TOOL:
		m.scheduleFor(func(s *storagev1.ActiveStep) flow.Effect { return flow.RefreshTool{Ordinal: s.GetOrdinal()} })
	case storagev1.Phase_PHASE_FILL:
		m.scheduleFor(func(s *storagev1.ActiveStep) flow.Effect { return flow.Fill{Ordinal: s.GetOrdinal()} })
	case storagev1.Phase_PHASE_ANSWER:
		m.beginAnswer(m.s.GetCutShort())
	}
}

// scheduleFor schedules an effect for the active step.
func (m *move) scheduleFor(effect func(*storagev1.ActiveStep) flow.Effect) {
	if s := m.step(); s != nil {
		m.schedule(effect(s))
	}
}

func ended(s executorv1.ExecutorStatus) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED,
		"the task has ended (%s); start a new one", s.String()[len("EXECUTOR_STATUS_"):])
}
