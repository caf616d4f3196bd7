package toolcall

import (
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// IsLost reports whether an error of Pawl's own connections or processes hides the outcome of a call.
func IsLost(err error) bool {
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

// NotFound reports whether the MCP pool does not know a call.
func NotFound(err error) bool {
	return errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND
}

// RefusedAtShutdown reports whether a replica of the MCP pool refused the call because it is stopping. Another replica may make the call.
func RefusedAtShutdown(err error) bool {
	e := errs.From(err)
	return e.Reason == commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN && e.Metadata[errs.OutcomeKey] == errs.OutcomeNotExecuted
}

// AsNetworkError turns an error that refuses a request into NETWORK_ERROR, because it does not prove that the call did not run.
func AsNetworkError(err error) error {
	e := errs.From(err)
	if e == nil || e.Metadata[errs.OutcomeKey] != "" || e.Reason == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND || !RefusesRequest(e.Code) {
		return err
	}
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "the MCP pool does not report the call's outcome: %w", err)
}

// RefusesRequest reports whether a request that ends with this code was refused before it was carried out.
func RefusesRequest(c codes.Code) bool {
	switch c {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.Unimplemented:
		return true
	}
	return false
}

// Failure returns a failed call's error and outcome. If the error names no outcome, the outcome is NOT_EXECUTED for a refused request, else
// UNKNOWN.
func Failure(err error, input string) (*storagev1.ErrorNote, commonv1.Outcome) {
	e := errs.From(err).Public()
	n := &storagev1.ErrorNote{ErrMsg: ValidUTF8(e.Message), DataJson: input, Reason: e.Reason}
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
	if RefusesRequest(e.Code) {
		return n, commonv1.Outcome_OUTCOME_NOT_EXECUTED
	}
	return n, commonv1.Outcome_OUTCOME_UNKNOWN
}
