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
	taskStatus = executorv1.ExecutorStatus
	stepStatus = executorv1.StepStatus
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

// CheckTaskMove returns an error if a task may not change from one status to another.
func CheckTaskMove(from, to taskStatus) error {
	if from == to || slices.Contains(taskEdges[from], to) {
		return nil
	}
	return invalid(strings.TrimPrefix(from.String(), "EXECUTOR_STATUS_"), strings.TrimPrefix(to.String(), "EXECUTOR_STATUS_"))
}

// CheckStepMove returns an error if a step may not change from one status to another.
func CheckStepMove(from, to stepStatus) error {
	if from == to || slices.Contains(stepEdges[from], to) {
		return nil
	}
	return invalid(strings.TrimPrefix(from.String(), "STEP_STATUS_"), strings.TrimPrefix(to.String(), "STEP_STATUS_"))
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

func invalid(from, to string) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_STATE_TRANSITION,
		"Invalid state transition: %s -> %s", from, to)
}
