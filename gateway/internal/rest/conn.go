package rest

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// retryAfter is what a client is told when a service cannot be reached: about how long gRPC waits before it dials again.
const retryAfter = 2 * time.Second

type contextKey struct{}

// forwarded are the request headers that services are told, by their names in metadata.
func forwarded() []string { return []string{"authorization", "traceparent", "tracestate"} }

// NewContext keeps what of the request goes to the services. A header that was sent more than once counts once: the
// first is what services read. The trace also becomes the context's, for a telemetry that continues it.
func NewContext(ctx context.Context, header http.Header) context.Context {
	md := metadata.MD{}
	for _, name := range forwarded() {
		if value := header.Get(name); value != "" && printable(value) {
			md.Set(name, value)
		}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
	return context.WithValue(ctx, contextKey{}, md)
}

// Conn makes calls whose metadata is what NewContext kept, whatever else the context carries. The name is what people
// call the service, for the error that says that it cannot be reached.
func Conn(next grpc.ClientConnInterface, name string, log *slog.Logger) grpc.ClientConnInterface {
	return &conn{next: next, name: name, log: log}
}

type conn struct {
	next grpc.ClientConnInterface
	name string
	log  *slog.Logger
}

func (c *conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.explain(ctx, method, c.next.Invoke(outgoing(ctx), method, args, reply, opts...))
}

func (c *conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.next.NewStream(outgoing(ctx), desc, method, opts...)
	if err != nil {
		return nil, c.explain(ctx, method, err)
	}
	return &clientStream{ClientStream: s, conn: c, method: method}, nil
}

type clientStream struct {
	grpc.ClientStream
	conn   *conn
	method string
}

func (s *clientStream) RecvMsg(m any) error {
	return s.conn.explain(s.Context(), s.method, s.ClientStream.RecvMsg(m))
}

// explain tells the client what to do about a failure that gRPC itself reports. Its own words hold addresses that are
// the operator's business: they are logged.
func (c *conn) explain(ctx context.Context, method string, err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok || st.Code() != codes.Unavailable || len(st.Details()) > 0 {
		return err
	}
	c.log.WarnContext(ctx, "a service cannot be reached", "service", c.name, "method", method, "error", err)
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR,
		"the %s service cannot be reached, or the connection to it was lost; check that it runs and that the gateway has its address (--%[1]s)",
		c.name).WithRetryAfter(retryAfter)
}

func outgoing(ctx context.Context) context.Context {
	md, _ := ctx.Value(contextKey{}).(metadata.MD)
	return metadata.NewOutgoingContext(ctx, md.Copy())
}

// printable says whether gRPC can carry the value: it closes the connection on anything but printable ASCII.
func printable(value string) bool {
	for i := range len(value) {
		if value[i] < 0x20 || value[i] > 0x7e {
			return false
		}
	}
	return true
}
