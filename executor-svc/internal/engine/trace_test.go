package engine_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"pawl.dev/services/grpctest"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/engine"
	"pawl.dev/executor-svc/internal/fake"
)

// tracedConn notes the traces that requests belong to.
type tracedConn struct {
	grpc.ClientConnInterface
	mu     *sync.Mutex
	traces map[trace.TraceID][]string
}

func (c tracedConn) note(ctx context.Context, method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := trace.SpanContextFromContext(ctx).TraceID()
	c.traces[id] = append(c.traces[id], method)
}

func (c tracedConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.note(ctx, method)
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func (c tracedConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c.note(ctx, method)
	return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// All that a task does belongs to the trace of the request that created it, also after a crash; the recovery links to that request.
func TestOneTracePerTask(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	otel.SetTracerProvider(provider)
	t.Cleanup(func() { otel.SetTracerProvider(sdktrace.NewTracerProvider()) })

	seen := tracedConn{mu: &sync.Mutex{}, traces: map[trace.TraceID][]string{}}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	r := newRigOver(t, fake.Script("read", "read"), log, func(register func(grpc.ServiceRegistrar)) grpc.ClientConnInterface {
		return tracedConn{grpctest.Serve(t, register, serve.Options{Log: log}), seen.mu, seen.traces}
	}).start()

	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	n := newTask(never)
	n.Head.TraceParent = engine.TraceParent(ctx)
	hold := newBarrier(t)
	r.holds.Store(n.ID, hold)
	r.createAs(n)
	hold.await()
	r.stuck = true
	_ = r.stop()
	hold.open()
	request.End()
	r.start()
	r.await(n.ID, success, waiting)
	_ = r.stop() // spans end with the owners

	id := request.SpanContext().TraceID()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for other, methods := range seen.traces {
		if other != id && other.IsValid() {
			t.Errorf("requests of another trace: %v", methods)
		}
	}
	if len(seen.traces[id]) < 4 {
		t.Errorf("requests of the task's trace: %v", seen.traces[id])
	}
	var linked int
	for _, s := range spans.Ended() {
		for _, l := range s.Links() {
			if s.SpanContext().TraceID() == id && l.SpanContext.SpanID() == request.SpanContext().SpanID() {
				linked++
			}
		}
	}
	if linked != 1 {
		t.Errorf("%d spans link to the request, want that of the recovery", linked)
	}
}
