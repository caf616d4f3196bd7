package runner

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// unfinished is what becomes of a call that brought no result.
func (s *Session) unfinished(l *listener, st *storagev1.ActiveStep, err error) flow.Input {
	out := flow.Called{Ordinal: l.call.ordinal, Attempt: l.call.attempt, Leg: l.call.leg}
	var m *moved
	switch {
	case errors.As(err, &m):
		return flow.Moved{Ordinal: out.Ordinal, Attempt: out.Attempt, PoolID: m.pool}
	case errors.Is(err, errAsked):
		return l.asked
	case errors.Is(err, errUndelivered):
		out.Err, _ = failure(err, st.GetInputJson())
		return flow.Undelivered{Ordinal: out.Ordinal, Attempt: out.Attempt, Err: out.Err}
	}
	out.Err, out.Outcome = failure(err, st.GetInputJson())
	out.Lost = lost(err) || errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND
	if outdated(out) {
		s.forget()
	}
	return out
}

// lost says whether an error tells of Pawl's own connections and processes alone, and nothing of the tool.
func lost(err error) bool {
	if err == nil {
		return false
	}
	e := errs.From(err)
	switch e.Reason {
	case commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN:
		return e.Metadata[errs.OutcomeKey] != notExecuted
	case commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR:
		return e.Metadata[errs.OutcomeKey] == ""
	}
	return false
}

// notExecuted is how an error says that its call did not run.
var notExecuted = strings.TrimPrefix(commonv1.Outcome_OUTCOME_NOT_EXECUTED.String(), "OUTCOME_")

// refused says whether a pool that is stopping proved that it did not begin the call: the next one may.
func refused(err error) bool {
	e := errs.From(err)
	return e.Reason == commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN && e.Metadata[errs.OutcomeKey] == notExecuted
}

// failure reads what a failed call says of its outcome. What says nothing is unknown, unless the request was refused
// before it could reach a tool.
func failure(err error, input string) (*storagev1.ErrorNote, commonv1.Outcome) {
	e := errs.From(err)
	if e.Reason == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND {
		return notFound(e, input)
	}
	n := &storagev1.ErrorNote{ErrMsg: valid(e.Message), DataJson: input, Reason: e.Reason}
	if o, ok := commonv1.Outcome_value["OUTCOME_"+e.Metadata[errs.OutcomeKey]]; ok && o != 0 {
		return n, commonv1.Outcome(o)
	}
	switch e.Code {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.FailedPrecondition:
		return n, commonv1.Outcome_OUTCOME_NOT_EXECUTED
	}
	return n, commonv1.Outcome_OUTCOME_UNKNOWN
}

// notFound says what it means for the task that the pool does not know a call.
func notFound(e *errs.Error, input string) (*storagev1.ErrorNote, commonv1.Outcome) {
	if e.Metadata[errs.OutcomeKey] == notExecuted {
		return &storagev1.ErrorNote{ErrMsg: "the call was lost on its way to the tool", DataJson: input, Reason: e.Reason}, commonv1.Outcome_OUTCOME_NOT_EXECUTED
	}
	return &storagev1.ErrorNote{
		ErrMsg:   "the process that made the call ended before it could say what came of it",
		DataJson: input, Reason: commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
	}, commonv1.Outcome_OUTCOME_UNKNOWN
}

func gone(toolID string) error {
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		"the tool %s is not there any more; look at the server's tools with `pawl mcp tools`", toolID)
}
