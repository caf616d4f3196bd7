package call

import (
	"errors"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

// Class says what may help against an error (D10).
type Class string

// The classes.
const (
	Retryable   Class = "RETRYABLE"   // the same again, later
	Recoverable Class = "RECOVERABLE" // another input, or the tool as it is now
	Permission  Class = "PERMISSION"  // a permission
	Permanent   Class = "PERMANENT"   // nothing a task can do
)

// ClassKey is the metadata key of an error's class.
const ClassKey = "error_class"

// classOf classifies by the reason, which comes from typed causes, and by whether the cause is transient.
func classOf(e *errs.Error) Class {
	switch e.Reason {
	case commonv1.ErrorReason_ERROR_REASON_TIMEOUT, commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
		commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR,
		commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, commonv1.ErrorReason_ERROR_REASON_OTHER_POOL,
		commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED:
		return Retryable
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
		commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, commonv1.ErrorReason_ERROR_REASON_TOO_LATE:
		return Recoverable
	case commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED,
		commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED, commonv1.ErrorReason_ERROR_REASON_ADDRESS_REFUSED:
		return Permission
	}
	if cause := (*mcp.Error)(nil); errors.As(e, &cause) && cause.Transient {
		return Retryable
	}
	return Permanent
}
