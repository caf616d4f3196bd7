package ui

import (
	"errors"
	"fmt"
)

// The exit codes.
const (
	Done    = 0  // the goal was worked through, or the command did what it says
	Failed  = 1  // the task failed, or the command did
	Stopped = 2  // the task was cancelled, or waits for a person
	Usage   = 64 // the command line cannot be understood
)

// Error ends a command.
type Error struct {
	Message string // what is wrong; empty where everything has been said already
	Next    string // what to do; may be empty
	Code    int

	cause error
}

// Errorf says what is wrong; the exit code is Failed.
func Errorf(format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Message: err.Error(), Code: Failed, cause: errors.Unwrap(err)}
}

// WrapError says what is wrong and keeps the cause for errors.Is and errors.As; it is not printed.
func WrapError(cause error, format string, args ...any) *Error {
	e := Errorf(format, args...)
	e.cause = cause
	return e
}

// Usagef says what is wrong with the command line.
func Usagef(format string, args ...any) *Error {
	e := Errorf(format, args...)
	e.Code = Usage
	return e
}

// Exit ends with a code when everything has been said already.
func Exit(code int) *Error { return &Error{Code: code} }

// Then returns a copy that says what to do next.
func (e *Error) Then(format string, args ...any) *Error {
	c := *e
	c.Next = format
	if len(args) > 0 {
		c.Next = fmt.Sprintf(format, args...)
	}
	return &c
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }
