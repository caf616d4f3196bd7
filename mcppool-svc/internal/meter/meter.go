// Package meter measures what the pool does, in OpenTelemetry's terms. It costs next to nothing where nobody collects. No
// name that a client chooses is an attribute: their number has no bound.
package meter

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"pawl.dev/mcppool-svc/internal/ledger"
	"pawl.dev/services/errs"
)

// Keys of attributes.
const (
	outcomeKey = attribute.Key("pawl.outcome")
	errorKey   = attribute.Key("error.type") // OpenTelemetry's own
	stateKey   = attribute.Key("pawl.connection.state")
	ofKey      = attribute.Key("pawl.resource") // what there is only so much of
)

// toolError is the error.type of a tool that says that it failed, as the MCP conventions have it.
const toolError = "tool_error"

// Calls measures calls. Nil measures nothing.
type Calls struct {
	duration          metric.Float64Histogram
	succeeded, failed metric.MeasurementOption // of tools that ran, and said so
}

// NewCalls makes the instruments of calls.
func NewCalls(m metric.Meter) (*Calls, error) {
	h, err := m.Float64Histogram("pawl.mcppool.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Tool calls by outcome: how many, and how long they took, connecting included."),
		metric.WithExplicitBucketBoundaries(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300))
	if err != nil {
		return nil, fmt.Errorf("making an instrument: %w", err)
	}
	return &Calls{
		duration: h, succeeded: attributes(outcomeKey.String(errs.OutcomeKnown)),
		failed: attributes(outcomeKey.String(errs.OutcomeKnown), errorKey.String(toolError)),
	}, nil
}

// Ended measures a call.
func (c *Calls) Ended(ctx context.Context, end ledger.End, took time.Duration) {
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
