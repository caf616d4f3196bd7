package ui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"
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

// AsError turns any error into one that ends the command; nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Message: "interrupted", Code: Stopped, cause: err}
	}
	var typed *errs.Error
	if _, isStatus := status.FromError(err); !isStatus && !errors.As(err, &typed) {
		return &Error{Message: err.Error(), Code: Failed, cause: err}
	}
	return fromService(errs.From(err))
}

func fromService(e *errs.Error) *Error {
	if e.Code == codes.Canceled {
		return &Error{Message: "interrupted", Code: Stopped, cause: e}
	}
	if e.Code == codes.Unimplemented && strings.Contains(e.Message, "unknown service") {
		return &Error{
			Message: "this server answers for another part of the suite (" + e.Message + ")",
			Next:    "of separate processes name the executor with --server (7412), and where they are elsewhere the pool with --pool (7414) and the planner with --planner (7413)",
			Code:    Failed, cause: e,
		}
	}
	if e.Code == codes.Unavailable && strings.Contains(e.Message, "connection error") {
		return &Error{
			Message: "no Pawl answers there (" + e.Message + ")",
			Next:    "start one with pawl up, or name its gRPC address with --server",
			Code:    Failed, cause: e,
		}
	}
	message, then := advised(wrong(e), nextSteps[e.Reason])
	if e.RetryAfter > 0 && !strings.Contains(e.Message, "try again in") {
		message += fmt.Sprintf(" (try again in %s)", humantime.AtLeast(e.RetryAfter))
	}
	code := Failed
	switch {
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE && strings.Contains(e.Message, "is disabled"):
		then = "" // a disabled server cannot be activated
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, e.Reason == commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED:
		message, _, _ = strings.Cut(message, "; ") // its advice is the same
	case e.Code == codes.InvalidArgument && e.Reason == commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST: // asking again as it was does not help
		code = Usage
		if then == "" && slices.ContainsFunc(e.Violations, func(v errs.Violation) bool { return v.Field == "model" }) {
			then = "pawl models shows the models there are"
		}
	}
	return &Error{Message: message, Next: then, Code: code, cause: e}
}

// nextSteps say what to do where the reason alone tells; messages say the rest themselves.
var nextSteps = map[commonv1.ErrorReason]string{
	commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND:         "pawl tasks shows the tasks there are",
	commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND:        "pawl agents list shows the agents there are; pawl agents create makes one",
	commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND:   "pawl mcp list shows the servers there are; pawl mcp add registers one",
	commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE:  "pawl mcp activate ID lets your tasks use it",
	commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE: unreachable,
	commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR:     unreachable,
	commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND:         "pawl mcp tools shows the tools there are",
	commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED:        "give your API key with --key or PAWL_KEY; an operator makes one with pawl keys add",
	commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED:      "ask an operator, or use a key that may do that",
	commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS:         "take another id, or change that one, or remove it first",
	commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED:         "pawl cancel TASK ends it",
	commonv1.ErrorReason_ERROR_REASON_DATA_DAMAGED:           "stop the server, then pawl store check says what is damaged",
	commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN:          elsewhere,
	commonv1.ErrorReason_ERROR_REASON_TASK_ENDED:             elsewhere,
}

const (
	unreachable = "pawl mcp test ID looks at each step of reaching it, pawl mcp logs ID shows what its program wrote"
	elsewhere   = "pawl show TASK says where the task is now"
)
