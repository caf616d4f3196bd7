package engine

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceParent is the key of the W3C trace context.
const traceParent = "traceparent"

// TraceParent returns the trace context of a request in the form that a task stores; empty if the request is not traced.
func TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceParent]
}

// startSpan makes actions part of the task's trace, which starts with the request that created the task. The span of a recovered task also
// links to that request.
func (o *owner) startSpan() {
	if o.head.GetTraceParent() == "" {
		return
	}
	ctx := propagation.TraceContext{}.Extract(o.base, propagation.MapCarrier{traceParent: o.head.GetTraceParent()})
	options := []trace.SpanStartOption{trace.WithAttributes(attribute.String("pawl.task.id", o.id), attribute.String("pawl.flow", o.head.GetFlow()))}
	if o.recovered() {
		options = append(options, trace.WithAttributes(attribute.Bool("pawl.task.recovered", true)), trace.WithLinks(trace.LinkFromContext(ctx)))
	}
	o.base, o.span = otel.Tracer("pawl.dev/executor-svc").Start(ctx, "task", options...)
}

// recovered reports whether a task that has to continue was last changed by an earlier process.
func (o *owner) recovered() bool {
	return o.resumePending && o.state.GetUpdateTime() < o.e.started.UnixNano()
}
