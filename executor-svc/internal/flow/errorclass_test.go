package flow_test

import (
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// D10: the typed reason decides; a tool's own text counts only without one.
func TestErrorClasses(t *testing.T) {
	const tool = "TOOL_EXECUTION_FAILED"
	for _, c := range []struct{ reason, text, want string }{
		{"TIMEOUT", "", "RETRYABLE"},
		{"NETWORK_ERROR", "", "RETRYABLE"},
		{"RATE_LIMITED", "", "RETRYABLE"},
		{"MCP_SERVER_UNAVAILABLE", "permission denied", "RETRYABLE"},
		{"INVALID_TOOL_INPUT", "path: permission denied", "RECOVERABLE"},
		{"CONFLICT", "", "RECOVERABLE"},
		{"PERMISSION_DENIED", "timed out", "PERMISSION"},
		{"LOGIN_REQUIRED", "", "PERMISSION"},
		{"TOOL_QUARANTINED", "", "PERMISSION"},
		{"TOOL_NOT_FOUND", "", "PERMANENT"},
		{tool, "write a.go: No space left on device", "PERMANENT"},
		{tool, "open /etc/shadow: permission denied", "PERMISSION"},
		{tool, "Error: EACCES, open 'x'", "PERMISSION"},
		{tool, "dial tcp: connection refused", "RETRYABLE"},
		{tool, "a.go changed since it was read", "RECOVERABLE"},
		{tool, "2 tests failed\nTestLogin: got permission denied", "RECOVERABLE"},
		{tool, "", "RECOVERABLE"},
		{"UNSPECIFIED", "the request timed out", "RETRYABLE"},
		{"UNKNOWN_ERROR", "?", "RECOVERABLE"},
	} {
		e := &storagev1.ErrorNote{ErrMsg: c.text, Reason: commonv1.ErrorReason(commonv1.ErrorReason_value["ERROR_REASON_"+c.reason])}
		if got := strings.TrimPrefix(flow.ClassOf(e).String(), "ERROR_CLASS_"); got != c.want {
			t.Errorf("%s %q is %s, want %s", c.reason, c.text, got, c.want)
		}
	}
}
