package errs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// gRPC sends a status in HTTP/2 headers, and its message twice (percent-encoded, and within the details). gRPC's C core,
// which Python and other languages use, refuses headers over 8 KiB. So longer texts are cut, with a mark at their end.
const (
	maxMessage    = 2048 // bytes
	maxViolations = 2048 // bytes of all of them, before `and n more`
	maxText       = 1024 // bytes of one metadata value, or of one field or description of a violation
)

// GRPCStatus makes the status to send: code, message, ErrorInfo, BadRequest if there are violations, RetryInfo
// if there is a delay, Usage if there is one. It also makes status.FromError and status.Code understand an *Error.
func (e *Error) GRPCStatus() *status.Status {
	details := []proto.Message{e.errorInfo()}
	if len(e.Violations) > 0 {
		details = append(details, e.badRequest())
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	if e.Usage != nil {
		details = append(details, e.Usage)
	}
	code := e.Code
	if code == codes.OK {
		code = codes.Internal // OK would turn a failure into a success
	}
	p := &spb.Status{Code: int32(code), Message: clip(e.Message, maxMessage)}
	for _, detail := range details {
		// Packing a message of valid UTF-8 does not fail. If it did, the status would lack this detail.
		if packed, err := anypb.New(detail); err == nil {
			p.Details = append(p.Details, packed)
		}
	}
	return status.FromProto(p)
}

func (e *Error) errorInfo() *errdetails.ErrorInfo {
	info := &errdetails.ErrorInfo{Reason: ReasonName(e.Reason), Domain: Domain}
	if len(e.Metadata) > 0 {
		info.Metadata = make(map[string]string, len(e.Metadata))
		for k, v := range e.Metadata {
			info.Metadata[strings.ToValidUTF8(k, "�")] = clip(v, maxText)
		}
	}
	return info
}

func (e *Error) badRequest() *errdetails.BadRequest {
	br := &errdetails.BadRequest{}
	used := 0
	for i, v := range e.Violations {
		used += len(v.Field) + len(v.Description)
		if used > maxViolations && i > 0 {
			br.FieldViolations = append(br.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Description: fmt.Sprintf("and %d more", len(e.Violations)-i),
			})
			break
		}
		br.FieldViolations = append(br.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field:       clip(v.Field, maxText),
			Description: clip(v.Description, maxText),
		})
	}
	return br
}

// clip makes text valid UTF-8 and cuts it to at most limit bytes, between two characters.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= limit {
		return s
	}
	const mark = " … (cut)"
	return strings.ToValidUTF8(s[:limit-len(mark)], "") + mark
}

// fromStatus returns the error of a status. If Pawl did not make the status, the reason follows from its code.
func fromStatus(st *status.Status, cause error) *Error {
	e := &Error{Code: st.Code(), Message: st.Message(), Reason: commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, cause: cause}
	if reason, ok := codeReasons[e.Code]; ok {
		e.Reason = reason
	}
	ours := false
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != Domain {
				continue
			}
			ours = true
			if r, known := commonv1.ErrorReason_value[reasonPrefix+d.GetReason()]; known {
				e.Reason = commonv1.ErrorReason(r)
			}
			if len(d.GetMetadata()) > 0 {
				e.Metadata = d.GetMetadata()
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = max(time.Duration(0), d.GetRetryDelay().AsDuration())
		case *commonv1.Usage:
			e.Usage = d
		}
	}
	if !ours {
		e.explainTransport()
	}
	return e
}

// From turns any error into an *Error: it returns the *Error in the chain, if any, and converts failed validations, gRPC
// statuses with their details, and context errors. Any other error becomes Internal/UNKNOWN_ERROR. Nil stays nil.
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
	e = &Error{Code: codes.Internal, Reason: commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, Message: err.Error(), cause: err}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Reason = codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT
	case errors.Is(err, context.Canceled):
		e.Code, e.Reason = codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED
	}
	return e
}

// fromValidation lists every wrong field in the message too, because many clients show only the message.
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

// codeReasons are the reasons for statuses without an ErrorInfo of Pawl: from gRPC itself, a proxy, or another server.
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

// explainTransport rewrites gRPC's error for a message over the size limit, which gRPC refuses before any code of ours runs.
func (e *Error) explainTransport() {
	_, sizes, found := strings.Cut(e.Message, "message larger than max (")
	var size, limit int64
	if e.Code != codes.ResourceExhausted || !found {
		return
	}
	if _, err := fmt.Sscanf(sizes, "%d vs. %d)", &size, &limit); err == nil {
		explained := TooLarge(size, limit)
		e.Reason, e.Message = explained.Reason, explained.Message
	}
}

// TooLarge returns the error for a message over the size limit. Both arguments are in bytes.
func TooLarge(size, limit int64) *Error {
	return New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE,
		"the message has %d bytes, the limit is %d; send less at once", size, limit)
}
