package errs

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// A status travels in HTTP/2 headers, twice (percent-encoded and as details), and gRPC's C core, under Python and many
// others, refuses headers over 8 KiB. What is longer is cut, and says so.
const (
	maxMessage    = 2048
	maxViolations = 2048 // bytes of all of them
	maxMetadata   = 1024 // bytes of one value
)

// GRPCStatus makes the status that travels: code, message, ErrorInfo, BadRequest where there are violations, RetryInfo
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
		// Packing a message of valid UTF-8 cannot fail; should it, the status goes without it.
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
			info.Metadata[strings.ToValidUTF8(k, "�")] = clip(v, maxMetadata)
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
			Field:       clip(v.Field, maxMetadata),
			Description: clip(v.Description, maxMetadata),
		})
	}
	return br
}

// clip makes text valid UTF-8 and cuts it to at most limit bytes, at a character.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= limit {
		return s
	}
	const mark = " … (cut)"
	return strings.ToValidUTF8(s[:limit-len(mark)], "") + mark
}

// fromStatus reads a status back. What did not come from this suite gets the reason that fits its code.
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
