package errs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// From turns any error into an *Error: one that is in the chain already, a failed message validation, a gRPC status off
// the wire with its details, a context's end, and everything else as Internal/UNKNOWN_ERROR. Nil stays nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var invalid *protovalidate.ValidationError
	if errors.As(err, &invalid) {
		return fromValidation(invalid)
	}
	var withStatus interface{ GRPCStatus() *status.Status }
	if errors.As(err, &withStatus) {
		if st := withStatus.GRPCStatus(); st != nil && st.Code() != codes.OK {
			return fromStatus(st, err)
		}
	}
	return fromCause(err)
}

func fromCause(err error) *Error {
	e := &Error{Code: codes.Internal, Reason: commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, Message: err.Error(), cause: err}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Reason = codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT
	case errors.Is(err, context.Canceled):
		e.Code, e.Reason = codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED
	}
	return e
}

// fromValidation lists every wrong field in the message too: many clients show nothing else.
func fromValidation(invalid *protovalidate.ValidationError) *Error {
	e := &Error{Code: codes.InvalidArgument, Reason: commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, cause: invalid}
	listed := make([]string, 0, len(invalid.Violations))
	for _, v := range invalid.Violations {
		field := protovalidate.FieldPathString(v.Proto.GetField())
		what := v.Proto.GetMessage()
		if what == "" {
			what = "breaks the rule " + v.Proto.GetRuleId()
		}
		e.Violations = append(e.Violations, Violation{Field: field, Description: what})
		if field == "" {
			listed = append(listed, what)
			continue
		}
		listed = append(listed, field+": "+what)
	}
	e.Message = "the request is not valid: " + strings.Join(listed, "; ")
	return e
}

// codeReasons are the reasons of a status that names none of ours: from gRPC itself, a proxy, or another server.
var codeReasons = map[codes.Code]commonv1.ErrorReason{
	codes.Canceled:         commonv1.ErrorReason_ERROR_REASON_CANCELLED,
	codes.DeadlineExceeded: commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
	codes.Unavailable:      commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR,
	codes.InvalidArgument:  commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
	codes.OutOfRange:       commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
	codes.PermissionDenied: commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
	codes.Unauthenticated:  commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED,
	codes.AlreadyExists:    commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
	codes.Aborted:          commonv1.ErrorReason_ERROR_REASON_CONFLICT,
}

// explainTransport rewrites what gRPC says of a message over the size limit, which it refuses before any code of ours runs.
func (e *Error) explainTransport() {
	_, sizes, found := strings.Cut(e.Message, "message larger than max (")
	var size, limit int64
	if e.Code != codes.ResourceExhausted || !found {
		return
	}
	if _, err := fmt.Sscanf(sizes, "%d vs. %d)", &size, &limit); err == nil {
		clear := TooLarge(size, limit)
		e.Reason, e.Message = clear.Reason, clear.Message
	}
}

// TooLarge is the error of a message that is over the size limit; both are in bytes.
func TooLarge(size, limit int64) *Error {
	return New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE,
		"the message has %d bytes, the limit is %d; send less at once", size, limit)
}
