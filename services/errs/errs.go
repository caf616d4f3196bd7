package errs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// Domain is the domain of every ErrorInfo that Pawl makes.
const Domain = "pawl"

// OutcomeKey is the metadata key for the outcome of a failed tool call.
const OutcomeKey = "outcome"

// Values of OutcomeKey.
const (
	OutcomeNotExecuted = "NOT_EXECUTED" // the tool certainly did not run
	OutcomeUnknown     = "UNKNOWN"      // the tool may have run
	OutcomeKnown       = "KNOWN"        // the tool answered with this error
)

const reasonPrefix = "ERROR_REASON_"

// Violation describes what is wrong with one field of a request.
type Violation struct {
	Field       string // path of the field, as in the proto: `limits.max_steps`
	Description string // what is wrong with it
}

// Error is a failure as callers see it. Its fields are read-only once it has been returned; the With methods copy.
type Error struct {
	Code       codes.Code
	Reason     commonv1.ErrorReason
	Message    string            // what went wrong and what to do next
	Metadata   map[string]string // goes to ErrorInfo.metadata
	Violations []Violation       // goes to BadRequest
	RetryAfter time.Duration     // goes to RetryInfo; 0: none
	Usage      *commonv1.Usage   // what the failed call cost, as a detail of its own; nil: nothing

	cause error
}

// New makes an error. The format may wrap a cause with %w; without args it is taken literally.
func New(code codes.Code, reason commonv1.ErrorReason, format string, args ...any) *Error {
	if len(args) == 0 {
		return &Error{Code: code, Reason: reason, Message: format}
	}
	wrapped := fmt.Errorf(format, args...)
	return &Error{Code: code, Reason: reason, Message: wrapped.Error(), cause: causeOf(wrapped)}
}

// causeOf strips the wrapper that fmt.Errorf made, unless it holds several causes.
func causeOf(wrapped error) error {
	if _, several := wrapped.(interface{ Unwrap() []error }); several {
		return wrapped
	}
	return errors.Unwrap(wrapped)
}

// Error returns `[REASON] message`.
func (e *Error) Error() string {
	return "[" + ReasonName(e.Reason) + "] " + e.Message
}

// Unwrap returns the error that the format wrapped with %w, if any.
func (e *Error) Unwrap() error { return e.cause }

// With returns a copy with one more metadata entry.
func (e *Error) With(key, value string) *Error {
	c := *e
	c.Metadata = maps.Clone(e.Metadata)
	if c.Metadata == nil {
		c.Metadata = make(map[string]string, 1)
	}
	c.Metadata[key] = value
	return &c
}

// WithViolation returns a copy that names one more wrong field.
func (e *Error) WithViolation(field, description string) *Error {
	c := *e
	c.Violations = append(slices.Clip(e.Violations), Violation{Field: field, Description: description})
	return &c
}

// WithRetryAfter returns a copy with the time to wait before a retry.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// WithUsage returns a copy with the usage of the failed call. The usage must not be changed afterwards.
func (e *Error) WithUsage(u *commonv1.Usage) *Error {
	c := *e
	c.Usage = u
	return &c
}

// Reason returns the reason that From gives to an error; unspecified for nil.
func Reason(err error) commonv1.ErrorReason {
	if err == nil {
		return commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED
	}
	return From(err).Reason
}

// ReasonName returns the enum's name without its prefix, as it travels in ErrorInfo: TASK_NOT_FOUND.
func ReasonName(r commonv1.ErrorReason) string {
	return strings.TrimPrefix(r.String(), reasonPrefix)
}
