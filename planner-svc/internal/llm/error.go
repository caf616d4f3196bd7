package llm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// Class says what kind of error a model's provider gave. It travels in errors as the metadata `model_error`.
type Class string

// The classes.
const (
	RateLimited Class = "RATE_LIMITED" // by the provider
	Auth        Class = "AUTH"         // the key is missing, wrong or lacks rights or credit
	TooLong     Class = "TOO_LONG"     // the request exceeds the model's context window
	Refused     Class = "REFUSED"      // the provider's policy forbids an answer
	BadRequest  Class = "BAD_REQUEST"  // the provider rejects the request for another reason
	NotFound    Class = "NOT_FOUND"    // no such model or address
	Unavailable Class = "UNAVAILABLE"  // not reachable, overloaded or failing
	Broken      Class = "BROKEN"       // the answer is malformed or incomplete
)

// Error is the failure of a request to a model.
type Error struct {
	Class      Class
	Message    string        // from the provider or the network, without secrets
	Advice     string        // what to do; "" for the class's usual advice
	RetryAfter time.Duration // 0 if the provider did not say
	Err        error         // the cause; may be nil
}

// errorf makes an error of a class. What %w wraps is its cause.
func errorf(class Class, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Class: class, Message: err.Error(), Err: errors.Unwrap(err)}
}

var (
	errRedirect = errorf(NotFound, "it redirects elsewhere; set `baseUrl` to where it leads, if that is right")
	errTooMuch  = errorf(Broken, "its answer is longer than any answer may be")
	errSilence  = errorf(Unavailable, "it fell silent in the middle of its answer")
	errCutOff   = errorf(Broken, "the answer broke off before its end")
)

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same request may succeed later, or at another model.
func (e *Error) Temporary() bool { return e.Class == RateLimited || e.Class == Unavailable }

// ClassOf returns the class of the *Error in err, "" if there is none.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

// classify returns the *Error in err, or makes one of an error of the network or of decoding.
func classify(err error) *Error {
	var e *Error
	var network net.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &network):
		return errorf(Unavailable, "%w", err)
	}
	return errorf(Broken, "%w", err)
}

// public holds the code, reason and advice that callers get for each class.
var public = map[Class]struct {
	code   codes.Code
	reason commonv1.ErrorReason
	advice string
}{
	RateLimited: {codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "its provider wants fewer requests; try again later"},
	Auth:        {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider rejects the key; an operator has to correct `key` or the provider's environment variable"},
	TooLong:     {codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "the conversation is too long for it; send less, or choose another model"},
	Refused:     {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider does not let it answer that; ask something else"},
	BadRequest:  {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider rejects the request; choose another model, or ask in another way"},
	NotFound:    {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider does not know it; check the model's name and address"},
	Unavailable: {codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider could not be reached, or is out of order; try again later"},
	Broken:      {codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its answer cannot be used; try again, or choose another model"},
}

// Public returns the error as callers of the service get it; name is the model's configured name. It wraps e.
func (e *Error) Public(name string) *errs.Error {
	p := public[e.Class]
	return errs.New(p.code, p.reason, "the model %q failed: %s (%w)", name, cmp.Or(e.Advice, p.advice), e).
		With("model_error", string(e.Class)).WithRetryAfter(e.RetryAfter)
}
