package telemetry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
	"pawl.dev/services/telemetry"
)

// keepGlobals puts OpenTelemetry's globals back after the test.
func keepGlobals(t *testing.T) {
	tracer, meter, logger, propagator := otel.GetTracerProvider(), otel.GetMeterProvider(), otel.GetLoggerProvider(), otel.GetTextMapPropagator()
	t.Cleanup(func() {
		if otel.GetTracerProvider() == tracer {
			return // OpenTelemetry complains when it is given its own value
		}
		otel.SetTracerProvider(tracer)
		otel.SetMeterProvider(meter)
		otel.SetLoggerProvider(logger)
		otel.SetTextMapPropagator(propagator)
	})
}

// clearEnv makes the test independent of where it runs.
func clearEnv(t *testing.T) {
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER",
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"} {
		t.Setenv(name, "")
	}
}

func TestOffUnlessAskedFor(t *testing.T) {
	cases := map[string]map[string]string{
		"nothing set": {},
		"none":        {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		"disabled":    {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		"upper case":  {"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
	}
	for name, env := range cases {
		t.Run(name, func(t *testing.T) {
			keepGlobals(t)
			clearEnv(t)
			for k, v := range env {
				t.Setenv(k, v)
			}
			before := otel.GetTracerProvider()
			shutdown, err := telemetry.Setup(t.Context(), "pool", "v1")
			if err != nil {
				t.Fatal(err)
			}
			if server, client := telemetry.Handlers(); otel.GetTracerProvider() != before || server != nil || client != nil {
				t.Error("something is on")
			}
			next := slog.NewTextHandler(io.Discard, nil)
			if telemetry.LogHandler("pool", next) != slog.Handler(next) {
				t.Error("LogHandler wraps")
			}
			if err := shutdown(); err != nil {
				t.Error(err)
			}
		})
	}
}

// sink is an OTLP collector over HTTP.
type sink struct {
	mu    sync.Mutex
	spans []*trace.Span
	paths map[string][]byte
	names []string
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[r.URL.Path] = append(s.paths[r.URL.Path], body...)
	var req collector.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
		return
	}
	for _, rs := range req.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" {
				s.names = append(s.names, a.Value.GetStringValue())
			}
		}
		for _, ss := range rs.ScopeSpans {
			s.spans = append(s.spans, ss.Spans...)
		}
	}
}

type service struct {
	testgrpc.UnimplementedTestServiceServer
}

func (service) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

// One trace goes through client and server, over direct calls too; metrics and logs go to the addresses in the variables.
func TestExports(t *testing.T) {
	keepGlobals(t)
	clearEnv(t)
	s := &sink{paths: map[string][]byte{}}
	srv := httptest.NewServer(s)
	defer srv.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	shutdown, err := telemetry.Setup(t.Context(), "pool", "v1")
	if err != nil {
		t.Fatal(err)
	}
	unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local(), Local: true})
	if err != nil {
		t.Fatal(err)
	}
	conn := inproc.New(unary, stream)
	testgrpc.RegisterTestServiceServer(conn, service{})
	if _, err := testgrpc.NewTestServiceClient(conn).EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
		t.Fatal(err)
	}
	slog.New(telemetry.LogHandler("pool", slog.DiscardHandler)).Info("a line for the collector")
	if err := shutdown(); err != nil {
		t.Fatal(err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spans) != 2 || !bytes.Equal(s.spans[0].TraceId, s.spans[1].TraceId) ||
		!bytes.Equal(s.spans[0].ParentSpanId, s.spans[1].SpanId) && !bytes.Equal(s.spans[1].ParentSpanId, s.spans[0].SpanId) {
		t.Errorf("spans of client and server are not one trace: %v", s.spans)
	}
	if len(s.names) == 0 || s.names[0] != "pool" {
		t.Errorf("service names %v", s.names)
	}
	if !bytes.Contains(s.paths["/v1/logs"], []byte("a line for the collector")) {
		t.Error("the log line is missing")
	}
	if !bytes.Contains(s.paths["/v1/metrics"], []byte("rpc.")) {
		t.Error("the metrics are missing")
	}
}

// TestShutdownIsBounded: a collector that does not answer delays a stop by seconds at most.
func TestShutdownIsBounded(t *testing.T) {
	keepGlobals(t)
	clearEnv(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connects, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+silent.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	shutdown, err := telemetry.Setup(t.Context(), "pool", "v1")
	if err != nil {
		t.Fatal(err)
	}
	slog.New(telemetry.LogHandler("pool", slog.DiscardHandler)).Info("a line for the collector")
	began := time.Now()
	if err := shutdown(); err == nil || time.Since(began) > 20*time.Second {
		t.Errorf("shutdown took %v: %v", time.Since(began), err)
	}
}

func TestSetupErrorsNameTheCause(t *testing.T) {
	keepGlobals(t)
	clearEnv(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
	if _, err := telemetry.Setup(t.Context(), "pool", "v1"); err == nil || !strings.Contains(err.Error(), "carrier-pigeon") {
		t.Errorf("err = %v", err)
	}
}
