package llm

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// Problem is what went wrong, as far as the next step depends on it. It travels in errors as the metadata `model_error`.
type Problem string

// The problems.
const (
	RateLimited Problem = "RATE_LIMITED" // of the provider
	Auth        Problem = "AUTH"         // the key is missing, wrong or not enough
	TooLong     Problem = "TOO_LONG"     // the conversation does not fit the model
	Refused     Problem = "REFUSED"      // the provider does not let it answer this
	BadRequest  Problem = "BAD_REQUEST"  // the provider does not take the request for another reason
	NotFound    Problem = "NOT_FOUND"    // there is no such model, or no such address
	Unavailable Problem = "UNAVAILABLE"  // not reached, or out of order
	Broken      Problem = "BROKEN"       // what came is no answer, or not a whole one
)

// problemKey is the metadata key of an error's Problem.
const problemKey = "model_error"

// Failure is why a model did not answer.
type Failure struct {
	Problem    Problem
	Message    string        // what the provider, or the network, said; no secret is in it
	Advice     string        // what to do, where it is not what the Problem alone says
	RetryAfter time.Duration // 0: not said
	Err        error         // the cause; may be nil
}

func (f *Failure) Error() string { return f.Message }

func (f *Failure) Unwrap() error { return f.Err }

// advice is what to do about a problem; how is the code and reason that callers get.
var advice = map[Problem]struct {
	code   codes.Code
	reason commonv1.ErrorReason
	what   string
}{
	RateLimited: {codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "its provider wants fewer requests; try again later"},
	Auth:        {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider does not take the key; an operator has to look at `key` in the file of --models"},
	TooLong:     {codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "the conversation is too long for it; send less, or choose another model"},
	Refused:     {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider does not let it answer that; ask something else"},
	BadRequest:  {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider does not take the request; choose another model, or ask in another way"},
	NotFound:    {codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider does not know it; an operator has to look at `model` and `baseUrl` in the file of --models"},
	Unavailable: {codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its provider could not be reached, or is out of order; try again later"},
	Broken:      {codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "its answer cannot be used; try again, or choose another model"},
}

// Explain is the failure as callers get it; name is the model's configured one.
func (f *Failure) Explain(name string) *errs.Error {
	a := advice[f.Problem]
	return errs.New(a.code, a.reason, "the model %q failed: %s (%w)", name, cmp.Or(f.Advice, a.what), f).
		With(problemKey, string(f.Problem)).WithRetryAfter(f.RetryAfter)
}

// Answer is an error that a provider sent.
type Answer struct {
	Status     int // of HTTP; 0 in the middle of a stream
	Type, Code string
	Message    string
	Header     http.Header // may be nil
}

// longest is how much of a provider's words an error takes.
const longest = 500

// Failure is what a provider's error comes to. Providers that are compatible with another differ in codes and words, so the words count
// where nothing else tells.
func (a Answer) Failure(cause error) *Failure {
	f := &Failure{Problem: a.problem(), RetryAfter: retryAfter(a.Header), Err: cause}
	said := strings.TrimSpace(a.Message)
	if said == "" {
		said = strings.TrimSpace(a.Type + " " + a.Code)
	}
	if len(said) > longest {
		said = strings.ToValidUTF8(said[:longest], "") + " …"
	}
	switch {
	case a.Status != 0 && said != "":
		f.Message = fmt.Sprintf("HTTP %d: %s", a.Status, said)
	case a.Status != 0:
		f.Message = fmt.Sprintf("HTTP %d %s", a.Status, http.StatusText(a.Status))
	default:
		f.Message = "in the middle of the answer: " + said
	}
	return f
}

func (a Answer) problem() Problem {
	kind := strings.ToLower(a.Code + " " + a.Type)
	switch {
	case has(kind, "content_filter", "content_policy"):
		return Refused
	case has(kind, "context_length", "request_too_large"), a.Status == http.StatusRequestEntityTooLarge,
		(a.Status == http.StatusBadRequest || a.Status == 0) && has(strings.ToLower(a.Message), "context length", "context window", "prompt is too long", "maximum context"):
		return TooLong
	case has(kind, "insufficient_quota", "billing"):
		return Auth // not cured by waiting
	case has(kind, "rate_limit"), a.Status == http.StatusTooManyRequests:
		return RateLimited
	case has(kind, "authentication", "permission", "invalid_api_key"), a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
		return Auth
	case has(kind, "not_found"), a.Status == http.StatusNotFound:
		return NotFound
	case has(kind, "overloaded", "api_error", "server_error"), a.Status >= 500, a.Status == http.StatusRequestTimeout:
		return Unavailable
	case a.Status == 0:
		return Broken
	}
	return BadRequest
}

func has(text string, any ...string) bool {
	for _, one := range any {
		if strings.Contains(text, one) {
			return true
		}
	}
	return false
}

// retryAfter reads when to come back; 0 where it is not said in seconds.
func retryAfter(h http.Header) time.Duration {
	const most = time.Hour
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return min(time.Duration(min(ms, 1e9)*float64(time.Millisecond)), most)
	}
	if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil && s > 0 {
		return min(time.Duration(min(s, 1e6)*float64(time.Second)), most)
	}
	return 0
}

// AsFailure finds the Failure in err; what is none was no answer.
func AsFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Problem: Broken, Message: err.Error(), Err: err}
}
