package state

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

type (
	taskStatus    = executorv1.ExecutorStatus
	stepStatus    = executorv1.StepStatus
	agentStatus   = executorv1.AgentStatus
	subtaskStatus = executorv1.SubtaskStatus
)

// taskEdges lists the statuses that may follow each status of a task.
var taskEdges = map[taskStatus][]taskStatus{
	executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT: {
		executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING,
		executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR,
		executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED,
	},
	executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING: {
		executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING,
		executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS,
		executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR,
		executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED,
	},
	executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING: {
		executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING,
		executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR,
		executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED,
	},
}

// stepEdges lists the statuses that may follow each status of a step. Every step that has not ended can be cancelled; a
// step in ERROR has not ended until the flow continues with the next step.
var stepEdges = map[stepStatus][]stepStatus{
	executorv1.StepStatus_STEP_STATUS_INIT: {
		executorv1.StepStatus_STEP_STATUS_RUNNING,
		executorv1.StepStatus_STEP_STATUS_WAITING,
		executorv1.StepStatus_STEP_STATUS_CANCELLED,
	},
	executorv1.StepStatus_STEP_STATUS_WAITING: {
		executorv1.StepStatus_STEP_STATUS_RUNNING,
		executorv1.StepStatus_STEP_STATUS_SUCCESS,
		executorv1.StepStatus_STEP_STATUS_ERROR,
		executorv1.StepStatus_STEP_STATUS_CANCELLED,
	},
	executorv1.StepStatus_STEP_STATUS_RUNNING: {
		executorv1.StepStatus_STEP_STATUS_SUCCESS,
		executorv1.StepStatus_STEP_STATUS_ERROR,
		executorv1.StepStatus_STEP_STATUS_WAITING,
		executorv1.StepStatus_STEP_STATUS_CANCELLED,
	},
	executorv1.StepStatus_STEP_STATUS_ERROR: {
		executorv1.StepStatus_STEP_STATUS_PARAM,
		executorv1.StepStatus_STEP_STATUS_INIT,
		executorv1.StepStatus_STEP_STATUS_CANCELLED,
	},
	executorv1.StepStatus_STEP_STATUS_PARAM: {
		executorv1.StepStatus_STEP_STATUS_RUNNING,
		executorv1.StepStatus_STEP_STATUS_WAITING,
		executorv1.StepStatus_STEP_STATUS_ERROR,
		executorv1.StepStatus_STEP_STATUS_CANCELLED,
	},
}

// agentEdges lists the statuses that may follow each status of an agent.
var agentEdges = map[agentStatus][]agentStatus{
	executorv1.AgentStatus_AGENT_STATUS_IDLE: {
		executorv1.AgentStatus_AGENT_STATUS_PLANNING,
	},
	executorv1.AgentStatus_AGENT_STATUS_PLANNING: {
		executorv1.AgentStatus_AGENT_STATUS_RUNNING,
		executorv1.AgentStatus_AGENT_STATUS_FAILED,
		executorv1.AgentStatus_AGENT_STATUS_ABORTED,
		executorv1.AgentStatus_AGENT_STATUS_WAITING,
	},
	executorv1.AgentStatus_AGENT_STATUS_RUNNING: {
		executorv1.AgentStatus_AGENT_STATUS_WAITING,
		executorv1.AgentStatus_AGENT_STATUS_COMPLETED,
		executorv1.AgentStatus_AGENT_STATUS_FAILED,
		executorv1.AgentStatus_AGENT_STATUS_ABORTED,
	},
	executorv1.AgentStatus_AGENT_STATUS_WAITING: {
		executorv1.AgentStatus_AGENT_STATUS_RUNNING,
		executorv1.AgentStatus_AGENT_STATUS_PLANNING,
		executorv1.AgentStatus_AGENT_STATUS_FAILED,
		executorv1.AgentStatus_AGENT_STATUS_ABORTED,
	},
}

// subtaskEdges lists the statuses that may follow each status of a subtask.
var subtaskEdges = map[subtaskStatus][]subtaskStatus{
	executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING: {
		executorv1.SubtaskStatus_SUBTASK_STATUS_BLOCKED,
		executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS,
		executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED,
	},
	executorv1.SubtaskStatus_SUBTASK_STATUS_BLOCKED: {
		executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING,
		executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED,
	},
	executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS: {
		executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED,
		executorv1.SubtaskStatus_SUBTASK_STATUS_FAILED,
		executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED,
	},
}

// CheckTaskMove returns an error if a task may not change from one status to another.
func CheckTaskMove(from, to taskStatus) error { return check(taskEdges, from, to) }

// CheckStepMove returns an error if a step may not change from one status to another.
func CheckStepMove(from, to stepStatus) error { return check(stepEdges, from, to) }

// CheckAgentMove returns an error if an agent may not change from one status to another. A task may pass PLANNING within one commit: if it ends
// before its tools are loaded, its agent passes from IDLE through PLANNING.
func CheckAgentMove(from, to agentStatus) error { return check(agentEdges, from, to) }

// CheckSubtaskMove returns an error if a subtask may not change from one status to another.
func CheckSubtaskMove(from, to subtaskStatus) error { return check(subtaskEdges, from, to) }

// check returns an error if an edge is not listed. The names in the message are without the enum's prefix.
func check[S interface {
	comparable
	String() string
}](edges map[S][]S, from, to S) error {
	if from == to || slices.Contains(edges[from], to) {
		return nil
	}
	name := func(s S) string {
		if _, word, ok := strings.Cut(s.String(), "_STATUS_"); ok {
			return word
		}
		return s.String()
	}
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_STATE_TRANSITION,
		"Invalid state transition: %s -> %s", name(from), name(to))
}

// Agent returns the status of the agent that works on a task with a plan, as a view of the task's status. planning reports that the plan is
// not made, or not confirmed yet.
func Agent(s executorv1.ExecutorStatus, planning bool) executorv1.AgentStatus {
	switch s {
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT:
		return executorv1.AgentStatus_AGENT_STATUS_IDLE
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING:
		return executorv1.AgentStatus_AGENT_STATUS_WAITING
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS:
		return executorv1.AgentStatus_AGENT_STATUS_COMPLETED
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR:
		return executorv1.AgentStatus_AGENT_STATUS_FAILED
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED:
		return executorv1.AgentStatus_AGENT_STATUS_ABORTED
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING:
		if planning {
			return executorv1.AgentStatus_AGENT_STATUS_PLANNING
		}
		return executorv1.AgentStatus_AGENT_STATUS_RUNNING
	}
	return executorv1.AgentStatus_AGENT_STATUS_UNSPECIFIED
}

// Ended reports whether a task's status is final.
func Ended(s taskStatus) bool {
	switch s {
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS,
		executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR,
		executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED:
		return true
	}
	return false
}

// SubtaskEnded reports whether a subtask's status is final.
func SubtaskEnded(s subtaskStatus) bool {
	switch s {
	case executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED,
		executorv1.SubtaskStatus_SUBTASK_STATUS_FAILED,
		executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED:
		return true
	}
	return false
}
