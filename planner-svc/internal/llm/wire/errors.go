package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"pawl.dev/planner-svc/internal/llm"
)

// ErrorAnswer is an error that a provider sent.
type ErrorAnswer struct {
	Status     int // of HTTP; 0 in the middle of a stream
	Type, Code string
	Message    string
	Header     http.Header // may be nil
}

// ReadError reads an error in the forms that providers use: {"error": {"type", "code", "message"}}, the inner object alone, or a text in
// place of either. Anything else becomes no message, since it is mostly a web page.
func ReadError(body []byte) ErrorAnswer {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	inner := body
	if json.Unmarshal(body, &outer) == nil && len(outer.Error) > 0 {
		inner = outer.Error
	}
	var text string
	if json.Unmarshal(inner, &text) == nil {
		return ErrorAnswer{Message: text}
	}
	var said struct {
		Type    any    `json:"type"`
		Code    any    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(inner, &said) != nil {
		return ErrorAnswer{}
	}
	kind, _ := said.Type.(string) // some servers use numbers
	code, _ := said.Code.(string)
	return ErrorAnswer{Type: kind, Code: code, Message: said.Message}
}

// maxMessage bounds how much of a provider's message an error keeps, in bytes.
const maxMessage = 500

// Error classifies a provider's error. Compatible providers differ in codes and texts, so the text decides only if nothing else does.
func (a ErrorAnswer) Error() *llm.Error {
	e := &llm.Error{Class: a.class(), Status: a.Status, RetryAfter: retryAfter(a.Header)}
	said := strings.TrimSpace(a.Message)
	if said == "" {
		said = strings.TrimSpace(a.Type + " " + a.Code)
	}
	if len(said) > maxMessage {
		said = strings.ToValidUTF8(said[:maxMessage], "") + " …"
	}
	switch {
	case a.Status != 0 && said != "":
		e.Message = fmt.Sprintf("HTTP %d: %s", a.Status, said)
	case a.Status != 0:
		e.Message = fmt.Sprintf("HTTP %d %s", a.Status, http.StatusText(a.Status))
	default:
		e.Message = "in the middle of the answer: " + said
	}
	return e
}

func (a ErrorAnswer) class() llm.Class {
	kind := strings.ToLower(a.Code + " " + a.Type)
	switch {
	case has(kind, "content_filter", "content_policy"):
		return llm.Refused
	case has(kind, "context_length", "request_too_large"), a.Status == http.StatusRequestEntityTooLarge,
		(a.Status == http.StatusBadRequest || a.Status == 0) && has(strings.ToLower(a.Message), "context length", "context window", "prompt is too long", "maximum context"):
		return llm.TooLong
	case has(kind, "insufficient_quota", "billing"):
		return llm.Auth // waiting does not help
	case has(kind, "rate_limit"), a.Status == http.StatusTooManyRequests:
		return llm.RateLimited
	case has(kind, "authentication", "permission", "invalid_api_key"), a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
		return llm.Auth
	case has(kind, "not_found"), a.Status == http.StatusNotFound:
		return llm.NotFound
	case has(kind, "overloaded", "api_error", "server_error"), a.Status >= 500, a.Status == http.StatusRequestTimeout, a.Status == http.StatusConflict:
		return llm.Unavailable
	case a.Status == 0:
		return llm.Broken
	}
	return llm.BadRequest
}

func has(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// retryAfter reads when to come back; 0 if it is not said in seconds.
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
