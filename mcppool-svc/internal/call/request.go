package call

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/ledger"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// Keys of `_meta` that say which step a call belongs to, for servers that can make use of it.
const (
	metaIdempotencyKey = "pawl.dev/idempotency-key"
	metaCallID         = "pawl.dev/call-id"
)

// Request is one call.
type Request struct {
	User           string
	Server         *registry.Server
	Refused        error // why the user cannot use the server; Server is nil then
	MCPID          string
	Tool           string
	Input          string        // JSON text of an object
	Hashes         []ledger.Hash // of server, tool and input, in each way to write it
	CallID         string        // empty: one is made up, and the call ends with its caller
	Unnamed        bool          // it was made up
	IdempotencyKey string        // may be empty
	Session        string        // may be empty
	Epoch          uint64        // of the session's owner
	Timeout        time.Duration // 0: the server's
	StartBy        time.Time     // zero: any time
	DefinitionHash string        // expected; may be empty
	ConfigRevision uint64        // expected; 0: any
	Ack            []string      // earlier calls to forget
	BypassCache    bool          // a result that is kept will not do
	Continues      bool          // it goes on with an earlier call

	Resume  *mcp.Continuation     // of a call that ended by asking; nil: a new call
	Answers map[string]mcp.Answer // to what it asked, by id of the question
	Task    string                // that does the call already; empty: it is to be made
}

// limit is the longest that the tool may take.
func (r *Request) limit() time.Duration {
	limit := r.Server.CallLimit()
	if r.Timeout > 0 {
		limit = min(limit, r.Timeout)
	}
	return limit
}

// meta says to the server which step, call and trace this is.
func (r *Request) meta(ctx context.Context) []mcp.Meta {
	m := make([]mcp.Meta, 0, 2)
	m = append(m, mcp.Meta{Key: metaCallID, Value: r.CallID})
	if r.IdempotencyKey != "" {
		m = append(m, mcp.Meta{Key: metaIdempotencyKey, Value: r.IdempotencyKey})
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return m
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for k, v := range carrier {
		m = append(m, mcp.Meta{Key: k, Value: v})
	}
	return m
}

// refuse is an error of a call that was not made.
func refuse(code codes.Code, reason commonv1.ErrorReason, format string, args ...any) *errs.Error {
	return errs.New(code, reason, format, args...).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
}

// inTime refuses a call that can no longer be started in time.
func (r *Request) inTime(now time.Time) error {
	if r.StartBy.IsZero() || now.Before(r.StartBy) {
		return nil
	}
	return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOO_LATE,
		"the call could not be started before %s; another owner may be at work by now", r.StartBy.UTC().Format(time.RFC3339Nano))
}
