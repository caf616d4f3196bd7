package flow

import (
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	retryable   = executorv1.ErrorClass_ERROR_CLASS_RETRYABLE
	recoverable = executorv1.ErrorClass_ERROR_CLASS_RECOVERABLE
	permission  = executorv1.ErrorClass_ERROR_CLASS_PERMISSION
	permanent   = executorv1.ErrorClass_ERROR_CLASS_PERMANENT
)

// classes holds the classes of reasons that name one cause. The other reasons of a failed call, such as TOOL_EXECUTION_FAILED, stand for the
// tool's own error, of which only the text is known.
var classes = map[commonv1.ErrorReason]executorv1.ErrorClass{
	commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR:          retryable,
	commonv1.ErrorReason_ERROR_REASON_TIMEOUT:                retryable,
	commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED:           retryable,
	commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED:          retryable, // of the pool's running calls or connections
	commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE: retryable,
	commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN:           retryable,
	commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN:          retryable,
	commonv1.ErrorReason_ERROR_REASON_OTHER_POOL:             retryable,
	commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND:         retryable,
	commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN:        retryable, // the connection or the process was lost
	commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR:            retryable,
	commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR:          retryable,

	commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT: recoverable,
	commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST:    recoverable,
	commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED: recoverable,
	commonv1.ErrorReason_ERROR_REASON_CONFLICT:           recoverable,
	commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS:     recoverable,
	commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND: recoverable,
	commonv1.ErrorReason_ERROR_REASON_TOO_LARGE:          recoverable,
	commonv1.ErrorReason_ERROR_REASON_TOO_LATE:           recoverable,
	commonv1.ErrorReason_ERROR_REASON_REJECTED:           recoverable,

	commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED:     permission,
	commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED:       permission,
	commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED:        permission,
	commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED:      permission,
	commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE: permission,
	commonv1.ErrorReason_ERROR_REASON_ADDRESS_REFUSED:       permission,
	commonv1.ErrorReason_ERROR_REASON_READ_ONLY:             permission,

	commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND:       permanent,
	commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND: permanent,
	commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR:   permanent,
	commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG:       permanent,
	commonv1.ErrorReason_ERROR_REASON_DATA_DAMAGED:         permanent,
	commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED:      permanent,
	commonv1.ErrorReason_ERROR_REASON_STALE_OWNER:          permanent,
	commonv1.ErrorReason_ERROR_REASON_WAIT_EXPIRED:         permanent,
	commonv1.ErrorReason_ERROR_REASON_CANCELLED:            permanent,
}

// phrases are what operating systems, HTTP and common runtimes write for a cause, by which a tool's own error is classified. The first match
// counts.
var phrases = []struct {
	text  string
	class executorv1.ErrorClass
}{
	{"no space left on device", permanent}, {"disk quota exceeded", permanent}, {"out of memory", permanent}, {"cannot allocate memory", permanent},
	{"enospc", permanent}, {"enomem", permanent},
	{"permission denied", permission}, {"operation not permitted", permission}, {"access is denied", permission}, {"access denied", permission},
	{"read-only file system", permission}, {"eacces", permission}, {"eperm", permission}, {"401 unauthorized", permission}, {"403 forbidden", permission},
	{"timed out", retryable}, {"deadline exceeded", retryable}, {"connection refused", retryable}, {"connection reset", retryable},
	{"temporarily unavailable", retryable}, {"too many requests", retryable}, {"rate limit", retryable}, {"503 service unavailable", retryable},
	{"etimedout", retryable}, {"econnreset", retryable}, {"econnrefused", retryable},
}

// ClassOf returns the class of a failed call's error. It reads a tool's text only if the reason names no cause, and only the first line,
// because further lines often quote something else. A tool's error without a known phrase is RECOVERABLE: another input may help.
func ClassOf(e *storagev1.ErrorNote) executorv1.ErrorClass {
	if class, ok := classes[e.GetReason()]; ok {
		return class
	}
	line, _, _ := strings.Cut(strings.TrimSpace(e.GetErrMsg()), "\n")
	line = strings.ToLower(line)
	for _, p := range phrases {
		if strings.Contains(line, p.text) {
			return p.class
		}
	}
	return recoverable
}

// InputMayHelp reports whether another input could succeed; none can if the tool could not be reached or is forbidden.
func InputMayHelp(e *storagev1.ErrorNote) bool {
	switch e.GetReason() {
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
		commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED,
		commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
		commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED:
		return true
	}
	return false
}
