package pipeline

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"pawl.dev/services/errs"
)

// startSpan begins the request's span, which has the names of OpenTelemetry's GenAI conventions. The provider is Pawl, because the planner alone knows the model's. end
// ends the span.
func (x *Exchange) startSpan(ctx context.Context) (_ context.Context, end func(error)) {
	model := x.Request.GetModel()
	ctx, span := otel.Tracer("pawl.dev/executor-svc").Start(ctx, strings.TrimSpace("chat "+model), trace.WithSpanKind(trace.SpanKindClient))
	return ctx, func(err error) {
		defer span.End()
		if !span.IsRecording() {
			return
		}
		used := x.Response.GetUsage()
		span.SetAttributes(
			attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "pawl"), attribute.String("gen_ai.request.model", model),
			attribute.String("gen_ai.response.model", x.Response.GetProviderModel()), attribute.Int64("gen_ai.usage.input_tokens", int64(used.GetInputTokens())),
			attribute.Int64("gen_ai.usage.output_tokens", int64(used.GetOutputTokens())), attribute.Int64("pawl.model_calls", int64(used.GetModelCalls())),
			attribute.Int64("pawl.tool_calls", int64(used.GetToolCalls())),
		)
		if err != nil {
			span.SetAttributes(attribute.String("error.type", errs.ReasonName(errs.From(err).Reason)))
			span.SetStatus(codes.Error, errs.From(err).Message)
		}
	}
}
