package runner

import (
	"errors"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
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
		out.Err, _ = failure(err, st.GetInputJson())
		return flow.Undelivered{Ordinal: out.Ordinal, Attempt: out.Attempt, Err: out.Err}
	}
	out.Err, out.Outcome = failure(err, st.GetInputJson())
	out.Lost = isLost(err) || callNotFound(err)
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

// isLost reports whether an error of Pawl's own connections or processes hides the outcome of a call.
func isLost(err error) bool {
	if err == nil {
		return false
	}
	e := errs.From(err)
	switch e.Reason {
	case commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN:
		return e.Metadata[errs.OutcomeKey] != errs.OutcomeNotExecuted
	case commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR:
		return e.Metadata[errs.OutcomeKey] == ""
	}
	return false
}

func callNotFound(err error) bool {
	return errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND
}

// refusedAtShutdown reports whether a replica of the MCP pool refused the call because it is stopping. Another replica may make the call.
func refusedAtShutdown(err error) bool {
	e := errs.From(err)
	return e.Reason == commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN && e.Metadata[errs.OutcomeKey] == errs.OutcomeNotExecuted
}

// asNetworkError turns an error that refuses a request into NETWORK_ERROR, because it does not prove that the call did not run.
func asNetworkError(err error) error {
	e := errs.From(err)
	if e == nil || e.Metadata[errs.OutcomeKey] != "" || e.Reason == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND || !refusesRequest(e.Code) {
		return err
	}
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "the MCP pool does not report the call's outcome: %w", err)
}

// refusesRequest reports whether a request that ends with this code was refused before it was carried out.
func refusesRequest(c codes.Code) bool {
	switch c {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.Unimplemented:
		return true
	}
	return false
}

// failure returns a failed call's error and outcome. If the error names no outcome, the outcome is NOT_EXECUTED for a refused request, else
// UNKNOWN.
func failure(err error, input string) (*storagev1.ErrorNote, commonv1.Outcome) {
	e := errs.From(err).Public()
	n := &storagev1.ErrorNote{ErrMsg: validUTF8(e.Message), DataJson: input, Reason: e.Reason}
	if e.Reason == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND {
		if e.Metadata[errs.OutcomeKey] == errs.OutcomeNotExecuted {
			n.ErrMsg = "the call was lost on its way to the tool"
			return n, commonv1.Outcome_OUTCOME_NOT_EXECUTED
		}
		n.ErrMsg = "the process that made the call ended before it could report the outcome"
		n.Reason = commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN
		return n, commonv1.Outcome_OUTCOME_UNKNOWN
	}
	if o, ok := commonv1.Outcome_value["OUTCOME_"+e.Metadata[errs.OutcomeKey]]; ok && o != 0 {
		return n, commonv1.Outcome(o)
	}
	if refusesRequest(e.Code) {
		return n, commonv1.Outcome_OUTCOME_NOT_EXECUTED
	}
	return n, commonv1.Outcome_OUTCOME_UNKNOWN
}

func toolGone(toolID string) error {
	mcpID, _ := flow.ToolName(toolID)
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		"the tool %s no longer exists; `pawl mcp tools %s` lists the server's tools", toolID, mcpID)
}
