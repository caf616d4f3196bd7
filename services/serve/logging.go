package serve

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// caller is filled in by an interceptor behind identity, and read by logging, which is before it so that refused calls
// are logged too.
type caller struct {
	principal identity.Principal
	known     bool
}

type callerKey struct{}

func noteCaller(ctx context.Context) {
	c, ok := ctx.Value(callerKey{}).(*caller)
	if !ok {
		return
	}
	if p, err := identity.FromContext(ctx); err == nil {
		c.principal, c.known = p, true
	}
}

func noteCallerUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	noteCaller(ctx)
	return next(ctx, req)
}

func noteCallerStream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	noteCaller(ss.Context())
	return next(srv, ss)
}

func logUnary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		c, start := &caller{}, time.Now()
		resp, err := next(context.WithValue(ctx, callerKey{}, c), req)
		logCall(ctx, log, info.FullMethod, c, time.Since(start), err)
		return resp, err
	}
}

func logStream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		c, start := &caller{}, time.Now()
		err := next(srv, &contextStream{ServerStream: ss, ctx: context.WithValue(ss.Context(), callerKey{}, c)})
		logCall(ss.Context(), log, info.FullMethod, c, time.Since(start), err)
		return err
	}
}

// contextStream is a server stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *contextStream) Context() context.Context { return s.ctx }

func logCall(ctx context.Context, log *slog.Logger, method string, c *caller, took time.Duration, err error) {
	level, code := slog.LevelDebug, codes.OK
	if err != nil {
		code = errs.From(err).Code
	}
	if serverFault(code) {
		level = slog.LevelWarn
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", code.String()), slog.Duration("duration", took)}
	if c.known {
		attrs = append(attrs, slog.String("sub", c.principal.Sub))
		if c.principal.OnBehalf {
			attrs = append(attrs, slog.Bool("on_behalf", true))
		}
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	log.LogAttrs(ctx, level, "call", attrs...)
}

// serverFault tells what the operator should look at from what callers do wrong.
func serverFault(c codes.Code) bool {
	switch c {
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unavailable:
		return true
	}
	return false
}
