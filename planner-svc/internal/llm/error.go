package llm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// Class is the kind of a provider's error. Errors carry it as the metadata `model_error`.
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
	RetryAfter time.Duration // 0 if the provider named none
	public     string        // Message without addresses; "" if it has none
}

func errorf(class Class, format string, args ...any) *Error {
	return &Error{Class: class, Message: fmt.Sprintf(format, args...)}
}

var (
	errRedirect = &Error{
		Class: NotFound, Message: "redirects are not followed, because they would send the key to another server",
		Advice: "its address redirects elsewhere; an operator has to set `baseUrl` to the new address if that is right",
	}
	errTooMuch = errorf(Broken, "its answer has more than 64 MiB")
	errSilence = errorf(Unavailable, "it fell silent in the middle of its answer")
	errCutOff  = errorf(Broken, "the answer broke off before its end")
)

func (e *Error) Error() string { return e.Message }

// PublicError returns the message for users who do not operate the planner; "" for the whole.
func (e *Error) PublicError() string { return e.public }

// Temporary reports whether the client repeats the request, and then sends it to the fallback.
func (e *Error) Temporary() bool { return e.Class == RateLimited || e.Class == Unavailable }

// ClassOf returns the class of the *Error in err, "" if there is none.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

// publicErrors holds the code, reason and advice that callers get for each class.
var publicErrors = map[Class]struct {
	code   codes.Code
	reason commonv1.ErrorReason
	advice string
}{
	RateLimited: {codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "its provider wants fewer requests; try again later"},
	Auth:        {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider rejects the key"},
	TooLong:     {codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "the conversation is too long for it; send less, or choose another model"},
	Refused:     {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider does not let it answer that; ask something else"},
	BadRequest:  {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider rejects the request; choose another model, or ask in another way"},
	NotFound:    {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider does not know it; check the model's name and address"},
	Unavailable: {codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider could not be reached, or is out of order; try again later"},
	Broken:      {codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its answer cannot be used; try again, or choose another model"},
}

// Public returns an error for the callers of the service, which wraps e; name is the model's configured name.
func (e *Error) Public(name string) *errs.Error {
	p := publicErrors[e.Class]
	return errs.New(p.code, p.reason, "the model %q failed: %s (%w)", name, cmp.Or(e.Advice, p.advice), e).
		With("model_error", string(e.Class)).WithRetryAfter(e.RetryAfter)
}

// providerError returns the error in a provider's response. It reads {"error": {"type", "code", "message"}}, the inner object alone, or a JSON string
// in place of either object, and ignores any other body, such as a web page. status is the HTTP status; 0 in the middle of a stream.
func providerError(body []byte, status int, header http.Header) *Error {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	var inner struct {
		Type, Code any // some servers use numbers
		Message    string
	}
	if json.Unmarshal(body, &outer) == nil && len(outer.Error) > 0 {
		body = outer.Error
	}
	if json.Unmarshal(body, &inner.Message) != nil && json.Unmarshal(body, &inner) != nil {
		inner.Message = ""
	}
	kind, _ := inner.Type.(string)
	code, _ := inner.Code.(string)
	text := cmp.Or(strings.TrimSpace(inner.Message), strings.TrimSpace(kind+" "+code), http.StatusText(status))
	where := "in the middle of the answer"
	if status != 0 {
		where = fmt.Sprintf("HTTP %d", status)
	}
	kind = strings.ToLower(code + " " + kind)
	e := errorf(classOf(kind, strings.ToLower(inner.Message), status), "%s: %.500s", where, text)
	if e.Class == Auth && isUnpaid(kind) {
		e.Advice = "its provider wants payment; an operator has to check the credit and billing of the key's account"
	}
	if seconds, err := strconv.ParseFloat(header.Get("Retry-After"), 64); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(min(seconds, time.Hour.Seconds()) * float64(time.Second))
	}
	return e
}

// classOf classifies an error by its kind, in lower case, and its HTTP status. Compatible providers differ in their texts, so the message
// only tells a prompt that is too long from other bad requests.
func classOf(kind, message string, status int) Class {
	has := func(text string, parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	switch {
	case has(kind, "content_filter", "content_policy"):
		return Refused
	case has(kind, "context_length", "request_too_large"), status == http.StatusRequestEntityTooLarge,
		(status == http.StatusBadRequest || status == 0) && has(message, "context length", "context window", "prompt is too long", "maximum context"):
		return TooLong
	case isUnpaid(kind):
		return Auth // waiting does not help
	case has(kind, "rate_limit"), status == http.StatusTooManyRequests:
		return RateLimited
	case has(kind, "authentication", "permission", "invalid_api_key"), status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Auth
	case has(kind, "not_found"), status == http.StatusNotFound:
		return NotFound
	case has(kind, "overloaded", "api_error", "server_error"), status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict:
		return Unavailable
	case status == 0:
		return Broken
	}
	return BadRequest
}

// isUnpaid reports whether an error of this kind, in lower case, means that the key's account has no credit.
func isUnpaid(kind string) bool {
	return strings.Contains(kind, "insufficient_quota") || strings.Contains(kind, "billing")
}
