package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kind is what went wrong, as far as the caller's next step depends on it.
type Kind int

// The kinds of failure.
const (
	// Unavailable: the server could not be started or reached, or the connection ended.
	Unavailable Kind = iota
	// Protocol: what the server sent is not MCP.
	Protocol
	// Answered: the server answered the request with a JSON-RPC error; Code is set.
	Answered
	// TooLarge: what the server sent, or was to be sent, is over the limit.
	TooLarge
	// Unauthorized: the server wants a credential, or another one.
	Unauthorized
	// Interrupted: the caller's context ended; errors.Is finds out which way.
	Interrupted
	// Misconfigured: what the registration says cannot be used.
	Misconfigured
	// AddressRefused: the server, or where it redirects to, is at an address that may not be reached.
	AddressRefused
	// LoginRequired: the server wants a login that the user has to make; nothing was executed.
	LoginRequired
	// NoModel: the server wanted a model asked, and that was refused or failed.
	NoModel
)

// Error is how a connect or a request failed.
type Error struct {
	Kind Kind
	// Message is the whole text; the cause's included.
	Message string
	// Sent is false only where it is certain that the server never got the request.
	Sent bool
	// Begun says that an earlier request of the same call was answered: to make the call anew would ask the same again.
	Begun bool
	// Ended says that the server answered the request, so that a tool ran, although the answer is of no use.
	Ended bool
	// Code is the JSON-RPC error code of an answer.
	Code int
	// Lost says that the connection is of no use any more, so that another one may do better.
	Lost bool
	// Transient says that the same may do better in a moment: the network, a server that starts anew, too many requests.
	Transient bool
	// Remembered says that nothing was tried: it is how the same failed a moment ago.
	Remembered bool
	// RetryAfter is how long the server wants to be left alone; 0 where it did not say.
	RetryAfter time.Duration
	// Stderr is what a child process had written to stderr; more of it than Message has.
	Stderr Stderr
	// Err is the cause, for errors.Is; may be nil.
	Err error

	// Data came with a JSON-RPC error; nil if none did.
	Data json.RawMessage
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error of a kind about something that was not sent; a %w verb gives the cause.
func Errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: err.Error(), Err: errors.Unwrap(err)}
}

// rpcInternalError is the JSON-RPC code of a server whose own code failed.
const rpcInternalError = -32603

// Panicked is a tool within this process that panicked.
func Panicked(with any) *Error {
	return &Error{Kind: Answered, Code: rpcInternalError, Sent: true, Message: fmt.Sprintf("the tool panicked: %.1000v", with)}
}

// As finds the Error in err; others become Unavailable and sent, which promises least.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: Unavailable, Message: err.Error(), Sent: true, Err: err}
}
