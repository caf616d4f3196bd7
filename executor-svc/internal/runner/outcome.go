package runner

import (
	"errors"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// inputForError returns the flow's input for a call that ended without a result, and drops the session's tools if they are stale.
func (s *Session) inputForError(c *call, st *storagev1.ActiveStep, err error) flow.Input {
	out := flow.Called{Ordinal: c.ordinal, Attempt: c.attempt, Round: c.round}
	var moved *movedError
	switch {
	case errors.As(err, &moved):
		return flow.Moved{Ordinal: out.Ordinal, Attempt: out.Attempt, PoolID: moved.poolID}
	case errors.Is(err, errElicited):
		return c.elicited
	case errors.Is(err, errUndelivered):
		out.Err, _ = toolcall.Failure(err, st.GetInputJson())
		return flow.Undelivered{Ordinal: out.Ordinal, Attempt: out.Attempt, Err: out.Err}
	}
	out.Err, out.Outcome = toolcall.Failure(err, st.GetInputJson())
	out.Lost = toolcall.IsLost(err) || toolcall.NotFound(err)
	if toolListIsStale(out) {
		s.dropTools()
	}
	return out
}

// toolListIsStale reports whether a call was refused because the session's list of tools differs from the MCP pool's. The session checks
// inputs against the schemas that it knows, so if the pool refuses an input, the schema has changed.
func toolListIsStale(out flow.Called) bool {
	switch out.Err.GetReason() {
	case commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED:
		return true
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT:
		return out.Outcome == commonv1.Outcome_OUTCOME_NOT_EXECUTED
	}
	return false
}

func toolGone(toolID string) error {
	mcpID, _ := flow.ToolName(toolID)
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		"the tool %s no longer exists; `pawl mcp tools %s` lists the server's tools", toolID, mcpID)
}
