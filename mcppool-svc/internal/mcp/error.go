package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/outbound"
)

// Kind classifies errors by what the caller can do about them.
type Kind int

// The kinds of failure.
const (
	// Unavailable: the server could not be started or reached, or answered with an HTTP error, or the connection ended.
	Unavailable Kind = iota
	// Protocol: the server sent something that does not follow MCP or cannot be used.
	Protocol
	// Answered: the server answered the request with a JSON-RPC error; Code is set.
	Answered
	// TooLarge: a message or a list of the server, or the number of subscriptions, is over the limit.
	TooLarge
	// Unauthorized: the server requires a credential, or refuses the one that was sent.
	Unauthorized
	// Interrupted: the caller's context ended, or the server cancelled the task. errors.Is distinguishes cancellation from a deadline.
	Interrupted
	// Misconfigured: the registration cannot be used.
	Misconfigured
	// AddressRefused: the server, or a redirect, leads to an address that may not be reached.
	AddressRefused
	// LoginRequired: the server requires a login by the user; nothing was executed.
	LoginRequired
	// NoModel: the server asked for a model's answer, which was refused or failed.
	NoModel
)

// Error is the error of connecting or of a request.
type Error struct {
	Kind Kind
	// Message is the whole text, including that of the cause.
	Message string
	// MayHaveRun is false only if the server certainly never got the request, or rejected it without running a tool.
	MayHaveRun bool
	// Begun reports that the server answered an earlier request of the same call: a repeated call would ask the same questions again.
	Begun bool
	// Ended reports that the server answered the request, so that no tool is running for it, although the call has no usable result.
	Ended bool
	// Code is the JSON-RPC error code of an answer.
	Code int
	// Lost reports that the connection can no longer be used; a new one may work.
	Lost bool
	// Transient reports that a retry may succeed soon: the network failed, the server restarts, or there were too many requests.
	Transient bool
	// Remembered reports that this is the error of an earlier attempt, a moment ago, and that no other attempt was made.
	Remembered bool
	// RetryAfter is how long the server asks to wait; 0 if it does not.
	RetryAfter time.Duration
	// Stderr is the end of a child process's stderr, longer than the part in Message.
	Stderr Stderr
	// Err is the cause, for errors.Is; may be nil.
	Err error

	// Data is the data of a JSON-RPC error, or nil.
	Data json.RawMessage
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error about a request that was not sent, or about something other than a request; a %w verb gives the cause.
func Errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: err.Error(), Err: errors.Unwrap(err)}
}

// sentf is Errorf for a request that was sent and may have run.
func sentf(kind Kind, format string, args ...any) *Error {
	e := Errorf(kind, format, args...)
	e.MayHaveRun = true
	return e
}

// endedf is Errorf for a request that the server answered, but not with a usable result.
func endedf(kind Kind, format string, args ...any) *Error {
	e := sentf(kind, format, args...)
	e.Ended = true
	return e
}

// Panicked returns the error of a tool in this process that panicked.
func Panicked(with any) *Error {
	return &Error{Kind: Answered, Code: mcp.INTERNAL_ERROR, MayHaveRun: true, Message: fmt.Sprintf("the tool panicked: %.1000v", with)}
}

// AddressAdvice ends the refusal of an address.
const AddressAdvice = "only an operator may register a server at such an address, or allow it with --allow-addresses"

// Find returns the Error in err, or nil if there is none. It converts an *outbound.Error.
func Find(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	refused, ok := errors.AsType[*outbound.Error](err)
	switch {
	case !ok:
		return nil
	case refused.Address:
		return &Error{Kind: AddressRefused, Message: refused.Message, Err: refused}
	}
	return &Error{Kind: Misconfigured, Message: refused.Message}
}

// As returns the Error in err. It turns any other error into an Error of kind Unavailable with MayHaveRun.
func As(err error) *Error {
	if e := Find(err); e != nil {
		return e
	}
	return &Error{Kind: Unavailable, Message: err.Error(), MayHaveRun: true, Err: err}
}

// statusError is an HTTP status other than the one expected.
type statusError struct{ status int }

func (e *statusError) Error() string { return "HTTP " + statusText(e.status) }

func statusText(status int) string {
	return strings.TrimSpace(http.StatusText(status)) + " (" + strconv.Itoa(status) + ")"
}

// httpError returns the error of a request that was answered with an HTTP error status. Some statuses prove that no tool ran.
// retryAfter is what the server asks for. rpcErr is the JSON-RPC error in the response, or nil.
func httpError(status int, retryAfter time.Duration, rpcErr *Error) *Error {
	e := &Error{Kind: Unavailable, MayHaveRun: true, Err: &statusError{status}, Message: "the server answered HTTP " + statusText(status),
		Transient: isTransient(status), RetryAfter: retryAfter}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Kind, e.MayHaveRun = Unauthorized, false
		e.Message += ": it requires a credential, or a different one; put it in the server's `headers`"
		return e
	case http.StatusNotFound:
		if rpcErr != nil && rpcErr.Code == mcp.METHOD_NOT_FOUND {
			break // since 2026-07-28 servers answer unknown methods with this status
		}
		e.MayHaveRun, e.Lost = false, true
		e.Message += ": it does not know the session, or the address is wrong"
		return e
	case http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		e.MayHaveRun = false
		return e
	}
	if rpcErr == nil {
		return e
	}
	e.Message += ": " + rpcErr.Message
	if status == http.StatusBadRequest && strings.Contains(strings.ToLower(rpcErr.Message), "session") {
		// Some servers answer 400 instead of 404 if they no longer know the session.
		e.MayHaveRun, e.Lost = false, true
		return e
	}
	e.Kind, e.Code, e.Data = Answered, rpcErr.Code, rpcErr.Data
	return e
}

// isTransient reports whether an HTTP status means a temporary problem.
func isTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
