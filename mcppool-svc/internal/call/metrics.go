package call

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/services/errs"
)

const (
	outcomeKey = attribute.Key("pawl.outcome")
	errorKey   = attribute.Key("error.type") // OpenTelemetry's own
	// toolError is the error.type of a tool that reports a failure, as the MCP conventions have it.
	toolError = "tool_error"
)

// Metrics measures calls. A nil Metrics measures nothing. Names that clients choose are no attributes: their number has no bound.
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
