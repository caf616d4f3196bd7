package chat

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	chatv1 "pawl.dev/executor-svc/internal/flow/chat/v1"
	"pawl.dev/executor-svc/internal/flow/step"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Kind is the flow's name.
const Kind = "chat"

// stateVersion is the version of Checkpoint.flow_state.
const stateVersion = 1

// Flow is the `chat` flow.
type Flow struct{}

var _ flow.Flow = Flow{}

// Kind implements flow.Flow.
func (Flow) Kind() string { return Kind }

// PlanOptions implements flow.Flow.
func (Flow) PlanOptions(*executorv1.PlanOptions) *executorv1.PlanOptions { return nil }

// Accepts implements flow.Flow: the task must answer a message.
func (Flow) Accepts(h *storagev1.TaskHead) error {
	if h.GetChat() == nil {
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"tasks of the flow %q answer messages of topics; post a message (POST /v1/topics/{id}/messages), or choose the flow \"agent\"", Kind)
	}
	return nil
}

// Memory implements flow.Flow. In rounds, few and short messages are enough (B7); in phases, the planner summarizes what does not fit (B13), and the task knows the
// calls that the process has made so far.
func (Flow) Memory(h *storagev1.TaskHead) flow.Memory {
	if h.GetChat().GetPhases() {
		return flow.Memory{Messages: 1000, AfterSummary: true, StepsOf: h.GetChat().GetEarlierTasks()}
	}
	return flow.Memory{Messages: 6, MessageLength: 500}
}

// Start implements flow.Flow.
func (Flow) Start() *storagev1.Checkpoint { return step.NewCheckpoint(phaseBegin) }

// Apply implements flow.Flow.
func (Flow) Apply(t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	return apply(t, func(m step.Machine) (flow.Transition, error) { return m.Apply(t, lane, in) })
}

// Resume implements flow.Flow.
func (Flow) Resume(t *flow.Task, recovered bool) (flow.Transition, error) {
	return apply(t, func(m step.Machine) (flow.Transition, error) { return m.Resume(t, recovered) })
}

// Fail implements flow.Flow.
func (Flow) Fail(t *flow.Task, e *storagev1.ErrorNote) (flow.Transition, error) {
	return apply(t, func(m step.Machine) (flow.Transition, error) { return m.Fail(t, e) })
}

// Fork implements flow.Flow: the fork begins with the message again.
func (Flow) Fork(f flow.Fork) (*storagev1.Checkpoint, *storagev1.Fact) {
	c, fact := step.Fork(f)
	c.Lanes = []*storagev1.Lane{{Phase: phaseBegin}}
	return c, fact
}

// apply runs the step machine with the flow's rules, and adds what the topic has to know about waits and the end of the task.
func apply(t *flow.Task, run func(step.Machine) (flow.Transition, error)) (flow.Transition, error) {
	r := &rules{State: &chatv1.State{}, task: t}
	if err := proto.Unmarshal(t.State.GetFlowState(), r.State); err != nil {
		return flow.Transition{}, err
	}
	for _, l := range t.State.GetLanes() {
		if l.GetPhase() == storagev1.Phase_PHASE_WAIT {
			l.RunTime = 0 // a person's answer gives the call its time again
		}
	}
	waits, status := t.State.GetWaitCount(), t.State.GetStatus()
	tr, err := run(step.Machine{Rules: r})
	if err != nil {
		return flow.Transition{}, err
	}
	r.postWaits(waits)
	if !state.Ended(status) && state.Ended(t.State.GetStatus()) {
		last := len(tr.Facts) - 1
		if last > 0 {
			status = tr.Facts[last-1].GetStatus()
		}
		r.postEnd(tr.Facts[last])
		tr.Facts = slices.Insert(tr.Facts, last, r.cancelServers(status)...)
	}
	tr.Posts, tr.Summary, tr.Unchanged = r.posts, r.summary, tr.Unchanged && len(r.posts) == 0
	t.State.FlowStateVersion = stateVersion
	t.State.FlowState, err = proto.MarshalOptions{Deterministic: true}.Marshal(r.State)
	return tr, err
}

// classOf returns the class of a server's error: `network`, `business` or `other`.
func classOf(e *storagev1.ErrorNote) string {
	switch e.GetReason() {
	case commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
		commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
		commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
		commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND:
		return "network"
	case commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
		commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, commonv1.ErrorReason_ERROR_REASON_CONFLICT,
		commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND,
		commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, commonv1.ErrorReason_ERROR_REASON_TOO_LATE:
		return "business"
	}
	return "other"
}
