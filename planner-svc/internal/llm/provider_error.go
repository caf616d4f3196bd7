package llm

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxMessage bounds how much of a provider's message an error keeps, in bytes.
const maxMessage = 500

// providerError reads and classifies an error that a provider sent, in the forms in use: {"error": {"type", "code", "message"}}, the inner
// object alone, or a text in place of either. Anything else becomes no message, since it is mostly a web page. status is HTTP's, and 0 in the
// middle of a stream, where there is no header.
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
	said := cmp.Or(strings.TrimSpace(inner.Message), strings.TrimSpace(kind+" "+code))
	if len(said) > maxMessage {
		said = strings.ToValidUTF8(said[:maxMessage], "") + " …"
	}
	class := classOf(strings.ToLower(code+" "+kind), strings.ToLower(inner.Message), status)
	var e *Error
	switch {
	case status == 0:
		e = errorf(class, "in the middle of the answer: %s", said)
	case said != "":
		e = errorf(class, "HTTP %d: %s", status, said)
	default:
		e = errorf(class, "HTTP %d %s", status, http.StatusText(status))
	}
	e.RetryAfter = retryAfter(header)
	return e
}

// classOf classifies an error by its kind, in small letters, and HTTP's status. Compatible providers differ in their texts, so the message
// decides only if nothing else does.
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
	case has(kind, "insufficient_quota", "billing"):
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

// retryAfter reads when to come back; 0 if it is not said in seconds.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.ParseFloat(h.Get("Retry-After"), 64)
	if err != nil || !(s > 0) {
		return 0
	}
	return time.Duration(min(s, time.Hour.Seconds()) * float64(time.Second))
}
