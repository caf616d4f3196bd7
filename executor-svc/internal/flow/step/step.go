package step

import (
	"cmp"
	"fmt"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
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
	waitPlan     = executorv1.WaitKind_WAIT_KIND_PLAN
	waitInput    = executorv1.WaitKind_WAIT_KIND_INPUT
)

// Rules is what a flow decides around the steps of its lanes. A rule changes the draft; it may close its lane or end the task.
type Rules interface {
	// Kind is the flow's name.
	Kind() string
	// Apply applies an answer to one of the flow's own questions. It returns false for an input that it does not know.
	Apply(l Lane, in flow.Input) bool
	// Resume schedules again what a lane in a phase of the flow's own was doing.
	Resume(l Lane)
	// Observe adds facts about what a call has done, before its output is recorded.
	Observe(l Lane, s *storagev1.ActiveStep, output string)
	// StepEnded continues a lane whose step has ended: it succeeded, or a person supplied its output or skipped it. next is the next step if it
	// is already known.
	StepEnded(l Lane, s *storagev1.ActiveStep, next *flow.Planned)
	// Recover decides how a step continues after a failed attempt: ASK asks a person for parameters if the error is about them, CORRECT_INPUT
	// derives another input, and any other value fails the step.
	Recover(l Lane, s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) executorv1.Recovery
	// StepFailed continues a lane whose step, which is still the lane's, has failed.
	StepFailed(l Lane, s *storagev1.ActiveStep)
	// Rejected continues after a person refused the lane's step, or its plan if it has no step.
	Rejected(l Lane, reason, waitID string)
	// WaitExpired continues after the deadline of a wait of the lane, whose step was failed.
	WaitExpired(l Lane, e *storagev1.ErrorNote)
	// Stopped ends a lane that was cancelled, or whose run time is spent.
	Stopped(l Lane, reason string)
	// PlanApproved continues after a person approved the lane's plan.
	PlanApproved(l Lane, a *storagev1.Approve)
	// CancelSubtask cancels a subtask.
	CancelSubtask(d *Draft, id, reason string)
}

// Machine applies inputs to tasks by the rules of a flow.
type Machine struct{ Rules Rules }

// Accepts implements flow.Flow.
func (Machine) Accepts(*storagev1.TaskHead) error { return nil }

// Kind implements flow.Flow.
func (m Machine) Kind() string { return m.Rules.Kind() }

// Apply implements flow.Flow.
func (m Machine) Apply(t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	d := newDraft(t, m.Rules)
	if d.ended() {
		return flow.Transition{}, endedError(d.Checkpoint.GetStatus())
	}
	d.apply(lane, in)
	if advances(in) {
		d.Checkpoint.Recoveries, d.Checkpoint.StatusReason = 0, ""
	}
	d.applyPauseAndBudget()
	return d.transition()
}

// Resume implements flow.Flow: it schedules each lane's action again, because its result was not recorded. It does not repeat a call that may
// have been sent, but attaches to it. A task that was recovered too often fails.
func (m Machine) Resume(t *flow.Task, recovered bool) (flow.Transition, error) {
	d := newDraft(t, m.Rules)
	if d.ended() || !d.canGoOn() {
		return flow.Transition{Unchanged: true}, nil
	}
	d.countRecovery(recovered)
	if limit := t.Head.GetLimits().GetMaxRecoveries(); limit > 0 && d.Checkpoint.GetRecoveries() > limit {
		d.failNoProgress(limit)
		return d.transition()
	}
	d.unchanged = !recovered
	for _, l := range d.Lanes() {
		if l.open() {
			l.resume()
		}
	}
	d.applyPauseAndBudget()
	return d.transition()
}

// Fail implements flow.Flow.
func (m Machine) Fail(t *flow.Task, e *storagev1.ErrorNote) (flow.Transition, error) {
	d := newDraft(t, m.Rules)
	for _, l := range d.Lanes() {
		l.Schedule(flow.Abandon{})
	}
	d.failNow(e)
	return d.transition()
}

// Changed reports that the draft changes the task although it adds no fact.
func (d *Draft) Changed() { d.unchanged = false }

func (d *Draft) apply(lane uint32, in flow.Input) {
	switch in := in.(type) {
	case flow.Command:
		d.applyCommand(in.Command)
		return
	case flow.Timeout:
		d.timeout()
		return
	case flow.RecoverySettled:
		d.recoverySettled()
		return
	case flow.Blocked:
		d.blocked(in)
		return
	}
	l, ok := d.Lane(lane)
	if !ok || l.settleAnswer(in) {
		return
	}
	if !l.applyStepInput(in) && !d.rules.Apply(l, in) {
		d.Refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the %s flow does not know %T", d.rules.Kind(), in))
	}
}

// applyStepInput applies an input about the lane's step. It returns false if the input is about something else.
func (l Lane) applyStepInput(in flow.Input) bool {
	switch in := in.(type) {
	case flow.Progress:
		l.progress(in)
	case flow.Called:
		l.called(in)
	case flow.Moved:
		l.moved(in)
	case flow.Elicited:
		l.elicited(in)
	case flow.Undelivered:
		l.undelivered(in)
	case flow.McpTask:
		l.mcpTask(in)
	case flow.NotStarted:
		l.notStarted(in)
	case flow.Derived:
		l.derived(in)
	case flow.Diagnosed:
		l.diagnosed(in)
	case flow.ToolRefreshed:
		l.toolRefreshed(in)
	default:
		return false
	}
	return true
}

// advances reports whether an input shows that the task makes progress, which resets its recoveries and its status reason. flow.Progress does
// not count, because it comes from the tool.
func advances(in flow.Input) bool {
	switch in.(type) {
	case flow.Begun, flow.Planned, flow.Called, flow.Elicited, flow.Derived, flow.Diagnosed, flow.ToolRefreshed, flow.Answered, flow.PlanCreated, flow.Thought,
		flow.Decided, flow.ToolsListed, flow.ToolsSelected, flow.Summarized, flow.Responded:
		return true
	}
	return false
}

// resume schedules the action that the lane's phase waits for.
func (l Lane) resume() {
	switch p := l.State.GetPhase(); p {
	case storagev1.Phase_PHASE_WAIT, storagev1.Phase_PHASE_IDLE:
	case storagev1.Phase_PHASE_CALL:
		l.resumeCall()
	case storagev1.Phase_PHASE_START, storagev1.Phase_PHASE_DERIVE, storagev1.Phase_PHASE_DIAGNOSE, storagev1.Phase_PHASE_REFRESH_TOOL, storagev1.Phase_PHASE_FILL:
		if s := l.activeStep(); s != nil {
			l.resumeStep(p, s)
		}
	default:
		l.rules.Resume(l)
	}
}

func (l Lane) resumeStep(p storagev1.Phase, s *storagev1.ActiveStep) {
	switch p {
	case storagev1.Phase_PHASE_START:
		l.call(s, "")
	case storagev1.Phase_PHASE_DERIVE:
		l.Ask(p, flow.Derive{Ordinal: s.GetOrdinal()})
	case storagev1.Phase_PHASE_DIAGNOSE:
		l.Ask(p, diagnoseQuestion(s))
	case storagev1.Phase_PHASE_REFRESH_TOOL:
		l.Ask(p, flow.RefreshTool{Ordinal: s.GetOrdinal()})
	case storagev1.Phase_PHASE_FILL:
		l.Ask(p, flow.Fill{Ordinal: s.GetOrdinal()})
	}
}

// diagnoseQuestion asks whether the step's error is about parameters.
func diagnoseQuestion(s *storagev1.ActiveStep) flow.Question {
	return flow.Diagnose{
		Ordinal: s.GetOrdinal(),
		Known:   s.GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
	}
}

// NewCheckpoint returns the first state of a task whose lane 0 begins in a phase.
func NewCheckpoint(p storagev1.Phase) *storagev1.Checkpoint {
	return &storagev1.Checkpoint{
		Rev: 1, Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT, LastSeq: 1, Lanes: []*storagev1.Lane{{Phase: p}},
	}
}

// failNoProgress ends a task that was recovered too often, so that it does not crash its process for ever.
func (d *Draft) failNoProgress(limit uint32) {
	d.failNow(&storagev1.ErrorNote{
		ErrMsg: fmt.Sprintf("the task was recovered %d times without progress; look in the logs of the executor and the system why its process ended, "+
			"then start a new task, or fork this one", limit),
		Reason: commonv1.ErrorReason_ERROR_REASON_NO_PROGRESS,
	})
}

func endedError(s executorv1.ExecutorStatus) error {
	how := map[executorv1.ExecutorStatus]string{
		executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS: "is done", executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR: "has failed",
	}[s]
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED, "the task has ended: it %s; start a new one", cmp.Or(how, "was cancelled"))
}
