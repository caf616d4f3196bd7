package models

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"pawl.dev/planner-svc/internal/llm"
)

// newRecorder returns a function that records a model's answer or error as GenAI metrics (OpenTelemetry's semantic conventions), and its cost.
func newRecorder() func(ctx context.Context, info *llm.Info, reply *llm.Reply, began time.Time, err error) {
	m := otel.Meter("pawl.dev/planner-svc")
	duration, err1 := m.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"), metric.WithDescription("How long a model took to answer."),
		metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92))
	tokens, err2 := m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"), metric.WithDescription("Tokens of prompts and replies."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864))
	cost, err3 := m.Float64Counter("pawl.planner.cost", metric.WithUnit("USD"), metric.WithDescription("What models with a configured price cost."))
	if err := errors.Join(err1, err2, err3); err != nil {
		otel.Handle(err)
	}
	return func(ctx context.Context, info *llm.Info, reply *llm.Reply, began time.Time, err error) {
		attributes := []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", info.Provider),
			attribute.String("gen_ai.request.model", info.ProviderModel), attribute.String("gen_ai.response.model", reply.Model),
		}
		set := metric.WithAttributes(attributes...)
		for kind, n := range map[string]uint64{"input": reply.Usage.Input, "output": reply.Usage.Output} {
			if n > 0 {
				tokens.Record(ctx, int64(n), set, metric.WithAttributes(attribute.String("gen_ai.token.type", kind)))
			}
		}
		if amount, known := reply.Usage.ExactCost(); known && amount > 0 {
			cost.Add(ctx, float64(amount)/1e12, set)
		}
		if err != nil {
			set = metric.WithAttributes(append(attributes, attribute.String("error.type", cmp.Or(string(llm.ClassOf(err)), "_OTHER")))...)
		}
		duration.Record(ctx, time.Since(began).Seconds(), set)
	}
}
