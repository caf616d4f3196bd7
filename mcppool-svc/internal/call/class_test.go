package call

import (
	"testing"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

// D10: an error's class follows from its typed cause.
func TestClass(t *testing.T) {
	reason := func(r commonv1.ErrorReason) *errs.Error { return errs.New(codes.Unknown, r, "x") }
	for _, tt := range []struct {
		name string
		err  *errs.Error
		want Class
	}{
		{"timeout", reason(commonv1.ErrorReason_ERROR_REASON_TIMEOUT), Retryable},
		{"network", Explain(Executing, &mcp.Error{Kind: mcp.Unavailable, Transient: true}), Retryable},
		{"a program that is not there", Explain(Preparing, &mcp.Error{Kind: mcp.Unavailable}), Permanent},
		{"too many calls", reason(commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED), Retryable},
		{"input", Explain(Executing, &mcp.Error{Kind: mcp.Answered, Code: rpcInvalidParams, MayHaveRun: true}), Recoverable},
		{"another definition", reason(commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED), Recoverable},
		{"a rule", reason(commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED), Permission},
		{"quarantine", reason(commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED), Permission},
		{"unknown tool", Explain(Executing, &mcp.Error{Kind: mcp.Answered, Code: rpcMethodNotFound, MayHaveRun: true}), Permanent},
		{"not MCP", Explain(Executing, &mcp.Error{Kind: mcp.Protocol, MayHaveRun: true}), Permanent},
	} {
		if got := classOf(tt.err); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
