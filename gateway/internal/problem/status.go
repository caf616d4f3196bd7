package problem

import (
	"net/http"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// StatusClientClosedRequest is nginx's status for a request that its client gave up; only logs show it.
const StatusClientClosedRequest = 499

// status is the HTTP status of an error. It is the table of google/rpc/code.proto but for two: FAILED_PRECONDITION is
// 409, since what stands in the way is the state of a task or server, not the request; and a message over the size
// limit is 413, not 429, since sending it again later does not help.
func status(e *errs.Error) int {
	if e.Reason == commonv1.ErrorReason_ERROR_REASON_TOO_LARGE {
		return http.StatusRequestEntityTooLarge
	}
	switch e.Code {
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Canceled:
		return StatusClientClosedRequest
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}
