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
	if _, isStatus := status.FromError(err); !isStatus && !isTyped(err) {
		return &Error{Message: err.Error(), Code: Failed, cause: err}
	}
	return fromService(errs.From(err))
}

func isTyped(err error) bool {
	var e *errs.Error
	return errors.As(err, &e)
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
	message, then := advised(wrong(e), next(e.Reason))
	if e.RetryAfter > 0 && !strings.Contains(e.Message, "try again in") {
		message += fmt.Sprintf(" (try again in %s)", humantime.AtLeast(e.RetryAfter))
	}
	code := Failed
	switch {
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE && strings.Contains(e.Message, "is disabled"):
		then = "" // a disabled server cannot be activated
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, e.Reason == commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED:
		message, _, _ = strings.Cut(message, "; ") // its advice is the same
	case refused(e):
		code = Usage
		if then == "" && slices.ContainsFunc(e.Violations, func(v errs.Violation) bool { return v.Field == "model" }) {
			then = "pawl models shows the models there are"
		}
	}
	return &Error{Message: message, Next: then, Code: code, cause: e}
}

// next says what to do where the reason alone tells; messages say the rest themselves.
func next(r commonv1.ErrorReason) string {
	switch r {
	case commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND:
		return "pawl tasks shows the tasks there are"
	case commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND:
		return "pawl agents list shows the agents there are; pawl agents create makes one"
	case commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND:
		return "pawl mcp list shows the servers there are; pawl mcp add registers one"
	case commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE:
		return "pawl mcp activate ID lets your tasks use it"
	case commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR:
		return "pawl mcp test ID looks at each step of reaching it, pawl mcp logs ID shows what its program wrote"
	case commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND:
		return "pawl mcp tools shows the tools there are"
	case commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED:
		return "give your API key with --key or PAWL_KEY; an operator makes one with pawl keys add"
	case commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED:
		return "ask an operator, or use a key that may do that"
	case commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS:
		return "take another id, or change that one, or remove it first"
	case commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED:
		return "pawl cancel TASK ends it"
	case commonv1.ErrorReason_ERROR_REASON_DATA_DAMAGED:
		return "stop the server, then pawl store check says what is damaged"
	case commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED:
		return "pawl show TASK says where the task is now"
	}
	return ""
}
