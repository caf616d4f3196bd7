package call

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

// JSON-RPC error codes.
const (
	rpcMethodNotFound = -32601
	rpcInvalidParams  = -32602
)

// Stage is the part of a call in which a request failed. It decides whether the tool may have run.
type Stage int

// The stages of a call.
const (
	Preparing Stage = iota // connecting, listing: no tool was called
	Executing
)

// Explain turns the failure of a connection or a request into the error that clients get, with its outcome. It returns an *errs.Error in the
// chain unchanged, except for NoModel, where that is the error of a model request.
func Explain(stage Stage, err error) *errs.Error {
	var explained *errs.Error
	e := mcp.As(err)
	if stage == Preparing && e.MayHaveRun {
		e = new(*e)
		e.MayHaveRun = false // the request was sent, but it called no tool
	}
	if e.Kind != mcp.NoModel && errors.As(err, &explained) {
		return explained
	}
	out := explain(stage, e)
	switch {
	case !e.MayHaveRun:
		return out.With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	case e.Kind == mcp.Answered, e.Ended:
		return out.With(errs.OutcomeKey, errs.OutcomeKnown)
	default:
		return out.With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
}

// explain chooses code and reason. FAILED_PRECONDITION means that a retry helps only after something has changed.
func explain(stage Stage, e *mcp.Error) *errs.Error {
	switch e.Kind {
	case mcp.Answered:
		return answered(stage, e)
	case mcp.Protocol:
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR, "%w", e)
	case mcp.TooLarge:
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "%w", e)
	case mcp.AddressRefused:
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_ADDRESS_REFUSED, "%w", e)
	case mcp.LoginRequired:
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED, "%w", e)
	case mcp.Unauthorized, mcp.Misconfigured:
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, "%w", e)
	case mcp.Interrupted:
		return interrupted(e)
	case mcp.NoModel:
		return withoutModel(e)
	default:
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, "%w", e)
	}
}

// answered explains a JSON-RPC error that the server returned instead of a result.
func answered(stage Stage, e *mcp.Error) *errs.Error {
	switch {
	case stage == Preparing:
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
			"the MCP server answered with error %d: %w", e.Code, e)
	case e.Code == rpcInvalidParams && meansUnknownTool(e.Message), e.Code == rpcMethodNotFound:
		return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND, "the MCP server does not know the tool: %w", e)
	case e.Code == rpcInvalidParams:
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
			"the MCP server refused the tool's input: %w", e)
	default:
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED,
			"the MCP server answered with error %d: %w", e.Code, e)
	}
}

// interrupted explains a call that its client, a limit or the stopping pool ended.
func interrupted(e *mcp.Error) *errs.Error {
	own := *e
	switch e.Message { // a bare context error has no useful text; other causes have
	case context.DeadlineExceeded.Error():
		own.Message = "the caller's own deadline passed first"
	case context.Canceled.Error():
		own.Message = "the caller went away"
	}
	switch {
	case errors.Is(e, mcp.ErrStopping):
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "%w", &own)
	case errors.Is(e, context.DeadlineExceeded):
		return errs.New(codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT, "%w", &own)
	}
	return errs.New(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "%w", &own)
}

// Class classifies an error by its possible remedy.
type Class string

// The classes.
const (
	Retryable   Class = "RETRYABLE"   // the same call later
	Recoverable Class = "RECOVERABLE" // another input, or the tool's current definition
	Permission  Class = "PERMISSION"  // a person's permission
	Permanent   Class = "PERMANENT"   // nothing a task can do
)

// ClassKey is the metadata key of an error's class.
const ClassKey = "error_class"

// classOf classifies an error by its reason, else by whether its cause is transient.
func classOf(e *errs.Error) Class {
	switch e.Reason {
	case commonv1.ErrorReason_ERROR_REASON_TIMEOUT, commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
		commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR,
		commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, commonv1.ErrorReason_ERROR_REASON_OTHER_POOL,
		commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED:
		return Retryable
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
		commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, commonv1.ErrorReason_ERROR_REASON_TOO_LATE:
		return Recoverable
	case commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED,
		commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED, commonv1.ErrorReason_ERROR_REASON_ADDRESS_REFUSED:
		return Permission
	}
	if cause := (*mcp.Error)(nil); errors.As(e, &cause) && cause.Transient {
		return Retryable
	}
	return Permanent
}
