package step

import (
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// ClassOf returns the class of a failed call's error, by its typed reason.
func ClassOf(e *storagev1.ErrorNote, _ commonv1.Outcome) executorv1.ErrorClass {
	switch e.GetReason() {
	case commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE,
		commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN:
		return executorv1.ErrorClass_ERROR_CLASS_RETRYABLE
	case commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED:
		return executorv1.ErrorClass_ERROR_CLASS_PERMISSION
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED,
		commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED:
		return executorv1.ErrorClass_ERROR_CLASS_RECOVERABLE
	}
	return executorv1.ErrorClass_ERROR_CLASS_PERMANENT
}
