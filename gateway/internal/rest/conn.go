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

// retryAfter is the Retry-After if a service cannot be reached: about the time until gRPC dials again.
const retryAfter = 2 * time.Second

type contextKey struct{}

// forwardedHeaders are the request headers that services receive, by their names in metadata.
var forwardedHeaders = []string{"authorization", "traceparent", "tracestate"}

// NewContext returns a context with the headers to forward to the services; of a repeated header, only the first value. Values
// that gRPC cannot carry are left out. The context also continues the client's trace.
func NewContext(ctx context.Context, header http.Header) context.Context {
	md := metadata.MD{}
	for _, name := range forwardedHeaders {
		if value := header.Get(name); value != "" && isPrintable(value) {
			md.Set(name, value)
		}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
	return context.WithValue(ctx, contextKey{}, md)
}

// Conn returns a connection whose calls send only the metadata of NewContext. name is the service's name in errors. If callers are authenticated,
// errors do not tell them how to set up the installation.
func Conn(next grpc.ClientConnInterface, name string, authenticated bool, log *slog.Logger) grpc.ClientConnInterface {
	advice := "check that it runs and that the gateway has its address (--" + name + ")"
	if authenticated {
		advice = "try again in a moment"
	}
	return &conn{next: next, name: name, advice: advice, log: log}
}

type conn struct {
	next grpc.ClientConnInterface
	name string
	// advice says what to do if the service cannot be reached.
	advice string
	log    *slog.Logger
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

// explain replaces gRPC's own error that a service is unavailable by one that says what to do. gRPC's text may have addresses of the
// operator's network, so it is only logged.
func (c *conn) explain(ctx context.Context, method string, err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok || st.Code() != codes.Unavailable || len(st.Details()) > 0 {
		return err
	}
	c.log.WarnContext(ctx, "a service cannot be reached", "service", c.name, "method", method, "error", err)
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR,
		"the %s service cannot be reached, or the connection to it was lost; %s", c.name, c.advice).WithRetryAfter(retryAfter)
}

func outgoing(ctx context.Context) context.Context {
	md, _ := ctx.Value(contextKey{}).(metadata.MD)
	return metadata.NewOutgoingContext(ctx, md.Copy())
}

// isPrintable reports whether gRPC can carry the value: gRPC closes the connection on anything but printable ASCII.
func isPrintable(value string) bool {
	for i := range len(value) {
		if value[i] < 0x20 || value[i] > 0x7e {
			return false
		}
	}
	return true
}
