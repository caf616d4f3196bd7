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
	initial   = executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT
	waiting   = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	running   = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	success   = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
	failed    = executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR
	cancelled = executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED

	stepInit      = executorv1.StepStatus_STEP_STATUS_INIT
	stepWaiting   = executorv1.StepStatus_STEP_STATUS_WAITING
	stepRunning   = executorv1.StepStatus_STEP_STATUS_RUNNING
	stepSuccess   = executorv1.StepStatus_STEP_STATUS_SUCCESS
	stepError     = executorv1.StepStatus_STEP_STATUS_ERROR
	stepParam     = executorv1.StepStatus_STEP_STATUS_PARAM
	stepCancelled = executorv1.StepStatus_STEP_STATUS_CANCELLED

	known       = commonv1.Outcome_OUTCOME_KNOWN
	notExecuted = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	unknown     = commonv1.Outcome_OUTCOME_UNKNOWN

	approval = executorv1.WaitKind_WAIT_KIND_APPROVAL
	params   = executorv1.WaitKind_WAIT_KIND_PARAMS
	outcome  = executorv1.WaitKind_WAIT_KIND_OUTCOME
	pause    = executorv1.WaitKind_WAIT_KIND_PAUSE
	input    = executorv1.WaitKind_WAIT_KIND_INPUT
)

// Flow is the `agent` flow.
type Flow struct{}

var _ flow.Flow = Flow{}

// On implements flow.Flow.
func (Flow) Apply(t *flow.Task, in flow.Input) (flow.Transition, error) {
	m := &move{t: t, s: t.State}
	if state.Ended(m.s.GetStatus()) {
		return flow.Transition{}, ended(m.s.GetStatus())
	}
	if err := m.on(in); err != nil {
		return flow.Transition{}, err
	}
	if progress(in) {
		m.s.Recoveries, m.s.StatusReason = 0, ""
	}
	return m.settle()
}

// Resume implements flow.Flow: an effect that had not come back is run again where that changes nothing in the world.
func (Flow) Resume(t *flow.Task, recovered bool) (flow.Transition, error) {
	m := &move{t: t, s: t.State}
	if state.Ended(m.s.GetStatus()) || m.s.GetPhase() == storagev1.Phase_PHASE_WAIT {
		return flow.Transition{Unchanged: true}, nil
	}
	m.recover(recovered)
	if limit := m.t.Head.GetLimits().GetMaxRecoveries(); limit > 0 && m.s.GetRecoveries() > limit {
		if err := m.giveUp(limit); err != nil {
			return flow.Transition{}, err
		}
		return m.transition(), nil
	}
	m.unchanged = !recovered && m.s.GetPhase() != storagev1.Phase_PHASE_ANSWER
	if err := m.goOn(); err != nil {
		return flow.Transition{}, err
	}
	return m.settle()
}

// Fail implements flow.Flow.
func (Flow) Fail(t *flow.Task, e *storagev1.ErrorNote) (flow.Transition, error) {
	m := &move{t: t, s: t.State}
	m.run(flow.Abandon{})
	if err := m.closeAttempt(e); err != nil {
		return flow.Transition{}, err
	}
	if err := m.fail(e); err != nil {
		return flow.Transition{}, err
	}
	return m.transition(), nil
}

func (m *move) on(in flow.Input) error {
	switch in := in.(type) {
	case flow.Command:
		return m.command(in.Command)
	case flow.Timeout:
		return m.lapsed()
	case flow.RecoverySettled:
		return m.recoverySettled()
	case flow.Blocked:
		return m.blocked(in)
	case flow.Begun:
		return m.begun(in)
	case flow.Planned:
		return m.planned(in)
	case flow.Derived:
		return m.derived(in)
	case flow.Diagnosed:
		return m.judged(in)
	case flow.ToolRefreshed:
		return m.looked(in)
	case flow.Text:
		return m.text(in)
	case flow.Answered:
		return m.answered(in)
	}
	return m.onCall(in)
}

// onCall does what came of a tool call.
func (m *move) onCall(in flow.Input) error {
	switch in := in.(type) {
	case flow.Progress:
		return m.progress(in)
	case flow.Called:
		return m.called(in)
	case flow.Moved:
		return m.moved(in)
	case flow.Asked:
		return m.asked(in)
	case flow.Undelivered:
		return m.undelivered(in)
	case flow.McpTask:
		return m.tasked(in)
	case flow.NotStarted:
		return m.notStarted(in)
	}
	return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the agent flow does not know %T", in)
}

// progress says whether a task that came to this has got somewhere since it was taken up.
func progress(in flow.Input) bool {
	switch in.(type) {
	case flow.Begun, flow.Planned, flow.Called, flow.Asked, flow.Derived, flow.Diagnosed, flow.ToolRefreshed, flow.Answered:
		return true
	}
	return false
}

// goOn runs what the task's phase is waiting for.
func (m *move) goOn() error {
	switch m.s.GetPhase() {
	case storagev1.Phase_PHASE_BEGIN:
		m.run(flow.Begin{})
	case storagev1.Phase_PHASE_PLAN:
		m.run(flow.Plan{})
	case storagev1.Phase_PHASE_START:
		s, err := m.step()
		if err != nil {
			return err
		}
		return m.call(s, "")
	case storagev1.Phase_PHASE_CALL:
		return m.interrupted()
	case storagev1.Phase_PHASE_DERIVE:
		return m.again(func(s *storagev1.ActiveStep) flow.Effect { return flow.Derive{Ordinal: s.GetOrdinal()} })
	case storagev1.Phase_PHASE_DIAGNOSE:
		return m.again(func(s *storagev1.ActiveStep) flow.Effect { return judge(s) })
	case storagev1.Phase_PHASE_REFRESH_TOOL:
		return m.again(func(s *storagev1.ActiveStep) flow.Effect { return flow.RefreshTool{Ordinal: s.GetOrdinal()} })
	case storagev1.Phase_PHASE_FILL:
		return m.again(func(s *storagev1.ActiveStep) flow.Effect { return flow.Fill{Ordinal: s.GetOrdinal()} })
	case storagev1.Phase_PHASE_ANSWER:
		m.beginAnswer(m.s.GetCutShort())
	}
	return nil
}

func (m *move) again(effect func(*storagev1.ActiveStep) flow.Effect) error {
	s, err := m.step()
	if err != nil {
		return err
	}
	m.run(effect(s))
	return nil
}

func ended(s executorv1.ExecutorStatus) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED,
		"the task has ended (%s); start a new one", s.String()[len("EXECUTOR_STATUS_"):])
}
