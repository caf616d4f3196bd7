package problem

import (
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// status is the HTTP status of an error. It is grpc-gateway's table but for two: FAILED_PRECONDITION is 409, since what stands in the way is
// the state of a task or server, not the request; and a message over the size limit is 413, not 429, since sending it again later does not
// help. CANCELLED is 499, nginx's status for a request that its client gave up; only logs show it.
func status(e *errs.Error) int {
	switch {
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_TOO_LARGE:
		return http.StatusRequestEntityTooLarge
	case e.Code == codes.FailedPrecondition:
		return http.StatusConflict
	}
	return runtime.HTTPStatusFromCode(e.Code)
}
