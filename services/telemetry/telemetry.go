// Package telemetry connects a process to OpenTelemetry if the standard OTEL_ variables ask for it; otherwise it does nothing.
// It knows no metric and no span of any service.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/stats"
)

// signal is one of OpenTelemetry's three signals, by its name in the variables.
type signal string

const (
	traces  signal = "TRACES"
	metrics signal = "METRICS"
	logs    signal = "LOGS"
)

// isOn reports whether the environment asks for the signal. Unlike OpenTelemetry's default, Pawl's default is to export nothing.
func (s signal) isOn() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") { // as OpenTelemetry specifies booleans
		return false
	}
	if exporter := os.Getenv("OTEL_" + string(s) + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+string(s)+"_ENDPOINT") != ""
}

// flushTimeout bounds how long a stop waits for the exporters, whose collector may be down.
const flushTimeout = 3 * time.Second

// Setup starts the exporters that the environment asks for, and sets OpenTelemetry's global providers. shutdown flushes
// and stops them, within flushTimeout and also if ctx is done; it is non-nil if err is nil.
func Setup(ctx context.Context, service, version string) (shutdown func() error, err error) {
	var closers []func(context.Context) error
	shutdown = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		var failed error
		for _, closer := range slices.Backward(closers) {
			failed = errors.Join(failed, closer(ctx))
		}
		closers = nil
		return failed
	}
	if !traces.isOn() && !metrics.isOn() && !logs.isOn() {
		return shutdown, nil
	}
	// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override these attributes.
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("set up telemetry: %w", err)
	}
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	for _, s := range []signal{traces, metrics, logs} {
		if !s.isOn() {
			continue
		}
		closer, err := s.start(ctx, res)
		if err != nil {
			err = fmt.Errorf("set up telemetry; check OTEL_%s_EXPORTER (%q) and the OTEL_EXPORTER_OTLP_ variables: %w",
				s, os.Getenv("OTEL_"+string(s)+"_EXPORTER"), err)
			return nil, errors.Join(err, shutdown())
		}
		closers = append(closers, closer)
	}
	return shutdown, nil
}

// start makes the signal's exporter, and a provider that it sets as the global one.
func (s signal) start(ctx context.Context, res *resource.Resource) (shutdown func(context.Context) error, err error) {
	switch s {
	case traces:
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, err
		}
		provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(res))
		otel.SetTracerProvider(provider)
		return provider.Shutdown, nil
	case metrics:
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, err
		}
		provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(res))
		otel.SetMeterProvider(provider)
		return provider.Shutdown, nil
	default:
		exporter, err := autoexport.NewLogExporter(ctx)
		if err != nil {
			return nil, err
		}
		provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(res))
		otel.SetLoggerProvider(provider)
		return provider.Shutdown, nil
	}
}

// LogHandler returns a handler that passes records to next and to OpenTelemetry. If the environment does not ask for logs, it returns
// next itself.
func LogHandler(service string, next slog.Handler) slog.Handler {
	if !logs.isOn() {
		return next
	}
	return slog.NewMultiHandler(next, otelslog.NewHandler(service))
}

// Handlers returns stats handlers that trace and measure gRPC servers and clients, or nil if the environment asks for no traces and no metrics.
func Handlers() (server, client stats.Handler) {
	if !traces.isOn() && !metrics.isOn() {
		return nil, nil
	}
	return otelgrpc.NewServerHandler(), otelgrpc.NewClientHandler()
}
