package mcp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// statusError is an HTTP status instead of an answer.
type statusError struct{ status int }

func (e *statusError) Error() string { return "HTTP " + statusText(e.status) }

func statusText(status int) string {
	return strings.TrimSpace(http.StatusText(status)) + " (" + strconv.Itoa(status) + ")"
}

// refused is the error of a request that was answered with an HTTP status. Statuses that say that the request was not looked
// at prove that no tool ran; behind all others one may have. said is a JSON-RPC error that came with it, or nil.
func refused(status int, after time.Duration, said *Error) *Error {
	e := &Error{Kind: Unavailable, Sent: true, Err: &statusError{status}, Message: "the server answered HTTP " + statusText(status),
		Transient: statusPasses(status), RetryAfter: after}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Kind, e.Sent = Unauthorized, false
		e.Message += ": it wants a credential, or another one; put it in the server's `headers`"
		return e
	case http.StatusNotFound:
		if said != nil && said.Code == mcp.METHOD_NOT_FOUND {
			break // since 2026-07-28 this is how a server says that it does not know the method
		}
		e.Sent, e.Lost = false, true
		e.Message += ": it does not know the session, or the address is wrong"
		return e
	case http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		e.Sent = false
		return e
	}
	if said == nil {
		return e
	}
	e.Message += ": " + said.Message
	if status == http.StatusBadRequest && strings.Contains(strings.ToLower(said.Message), "session") {
		// Some servers say so instead of 404 once they have forgotten a session.
		e.Sent, e.Lost = false, true
		return e
	}
	e.Kind, e.Code, e.Data = Answered, said.Code, said.Data
	return e
}

// statusPasses reports whether what an HTTP status says may be over in a moment.
func statusPasses(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
