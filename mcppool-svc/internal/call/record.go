package call

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/protobuf/types/known/durationpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/services/errs"
)

// decision is the pool's own decision about a call.
type decision string

const (
	undecided decision = "none" // the call ended before the decision
	allowed   decision = "allowed"
	refused   decision = "refused"
)

// runState is the state of an execution, for its record and for the decision to retry.
type runState struct {
	decision   decision
	definition string // hash of the tool's definition
	repeatable bool   // the tool may run twice
	cached     bool   // the result came from the cache; the tool was not called
	connected  bool   // the latest attempt had a connection

	reason     retryReason // for the latest attempt
	delayed    int         // retries after a backoff
	repeats    int         // retries, except those that only replaced a connection
	continued  int         // repeats of requests that continued the call
	mayHaveRun bool        // an earlier attempt may have run the tool

	asked   atomic.Bool // the server asked for input
	unclear atomic.Bool // a question of the server could not be assigned to one call, and was declined
	tasked  atomic.Bool // the server runs the call as an MCP task
	usage   usage       // of the server's model requests
}

// end completes the result, or classifies the error. After a failure, the outcome of an MCP task is unknown unless the server reported it.
func (x *execution) end(result *mcppoolv1.CallResult, err error) inflight.End {
	if err != nil {
		failed := errs.From(err)
		if outcome := failed.Metadata[errs.OutcomeKey]; outcome == "" || x.Task != "" && outcome != errs.OutcomeKnown {
			failed = failed.With(errs.OutcomeKey, errs.OutcomeUnknown)
		}
		return inflight.End{Err: failed.With(ClassKey, string(classOf(failed)))}
	}
	result.CallId, result.ModelUsage = x.CallID, x.usage.message()
	result.Duration = durationpb.New(time.Since(x.began))
	return inflight.End{Result: result}
}

// record measures the call and writes it to the log and to the audit file.
func (x *execution) record(ctx context.Context, took time.Duration, end inflight.End) {
	x.deps.Metrics.ended(ctx, end, took)
	level, message := slog.LevelDebug, "tool call"
	if end.Err != nil {
		level, message = slog.LevelInfo, "tool call failed"
	}
	if x.deps.Log.Enabled(ctx, level) {
		attrs := []slog.Attr{
			slog.String("user", x.User), slog.String("mcp_id", x.MCPID), slog.String("tool", x.Tool), slog.String("call_id", x.CallID),
			slog.String("session_id", x.Session), slog.Duration("took", took), slog.Bool("is_error", end.Result.GetIsError()),
		}
		if end.Err != nil {
			attrs = append(attrs, slog.Any("error", end.Err))
		}
		x.deps.Log.LogAttrs(ctx, level, message, attrs...)
	}
	if x.deps.Audit != nil {
		x.deps.Audit.Record(ctx, "tool_call", x.auditAttrs(took, end)...)
	}
}

// auditAttrs describes the call by names and hashes only: arguments, results and messages could hold secrets.
func (x *execution) auditAttrs(took time.Duration, end inflight.End) []slog.Attr {
	sum := sha256.Sum256([]byte(x.Input.String()))
	outcome, reason := errs.OutcomeKnown, ""
	if end.Err != nil {
		outcome, reason = end.Err.Metadata[errs.OutcomeKey], errs.ReasonName(end.Err.Reason)
	}
	d := x.decision
	if d == "" {
		d = undecided
	}
	return []slog.Attr{
		slog.String("user", x.User), slog.String("session_id", x.Session), slog.String("mcp_id", x.MCPID), slog.String("tool", x.Tool),
		slog.String("call_id", x.CallID), slog.String("definition_hash", x.definition), slog.String("argument_hash", hex.EncodeToString(sum[:])),
		slog.String("decision", string(d)), slog.String("outcome", outcome), slog.String("reason", reason),
		slog.Int("retries", x.repeats+x.continued), slog.Bool("tool_error", end.Result.GetIsError()), slog.Bool("cached", x.cached),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
}

const (
	outcomeKey = attribute.Key("pawl.outcome")
	errorKey   = attribute.Key("error.type") // OpenTelemetry's own
	// toolError is the error.type of a tool that reports a failure, from OpenTelemetry's conventions for MCP.
	toolError = "tool_error"
)

// Metrics measures calls. A nil Metrics measures nothing. Names that clients choose are not attributes, because their number is unbounded.
type Metrics struct {
	duration          metric.Float64Histogram
	succeeded, failed metric.MeasurementOption // of tools that ran
}

// NewMetrics returns the instruments of calls.
func NewMetrics(m metric.Meter) (*Metrics, error) {
	h, err := m.Float64Histogram("pawl.mcppool.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Tool calls by outcome: how many, and how long they took, connecting included."),
		metric.WithExplicitBucketBoundaries(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300))
	if err != nil {
		return nil, fmt.Errorf("making an instrument: %w", err)
	}
	return &Metrics{
		duration: h, succeeded: attributes(outcomeKey.String(errs.OutcomeKnown)),
		failed: attributes(outcomeKey.String(errs.OutcomeKnown), errorKey.String(toolError)),
	}, nil
}

// ended measures a call.
func (c *Metrics) ended(ctx context.Context, end inflight.End, took time.Duration) {
	if c == nil || !c.duration.Enabled(ctx) {
		return
	}
	of := c.succeeded
	switch {
	case end.Err != nil:
		of = attributes(outcomeKey.String(end.Err.Metadata[errs.OutcomeKey]), errorKey.String(errs.ReasonName(end.Err.Reason)))
	case end.Result.GetIsError():
		of = c.failed
	}
	c.duration.Record(ctx, took.Seconds(), of)
}

func attributes(of ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(of...))
}
