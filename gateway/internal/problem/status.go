package problem

import (
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// status returns the HTTP status of an error. It follows grpc-gateway's table with three exceptions. FAILED_PRECONDITION is 409, because the
// obstacle is the state of a task or server, not the request. A message over the size limit is 413, not 429, because sending it again later
// does not help. A request that is invalid because it took too long to arrive is 408.
func status(e *errs.Error) int {
	switch {
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_TOO_LARGE:
		return http.StatusRequestEntityTooLarge
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_TIMEOUT && e.Code == codes.InvalidArgument:
		return http.StatusRequestTimeout
	case e.Code == codes.FailedPrecondition:
		return http.StatusConflict
	}
	return runtime.HTTPStatusFromCode(e.Code)
}
