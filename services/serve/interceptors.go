package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// defaultMaxRecv is 4 MiB, the most that one field of exact JSON may have, and room for what is around it.
const defaultMaxRecv = 4<<20 + 256<<10

// Options is what a service decides about its server.
type Options struct {
	Auth         identity.Authenticator // required
	Log          *slog.Logger           // nil: nothing is logged
	MaxRecvBytes int                    // largest message taken; 0: 4.25 MiB
	// Drained, where set, keeps the server answering after it was told to stop, until it is closed: NOT_SERVING in its health,
	// but there for who has something running here.
	Drained <-chan struct{}
	// MaxConnectionAge is when a client is asked to connect anew, and so to look up names again; half an hour where 0.
	MaxConnectionAge time.Duration
	Local            bool // there are no keys: only calls to a loopback authority are taken
}

func (o Options) withDefaults() (Options, error) {
	if o.Auth == nil {
		return o, errors.New("serve: Options.Auth is missing; use identity.Local() or a key file")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxRecvBytes < 0 {
		return o, fmt.Errorf("serve: Options.MaxRecvBytes is %d; it cannot be negative", o.MaxRecvBytes)
	}
	if o.MaxConnectionAge == 0 {
		o.MaxConnectionAge = maxConnectionAge
	}
	if o.MaxRecvBytes == 0 {
		o.MaxRecvBytes = defaultMaxRecv
	}
	return o, nil
}

// Interceptors returns the chains in their order, for a gRPC server and for in-process connections alike.
func Interceptors(o Options) ([]grpc.UnaryServerInterceptor, []grpc.StreamServerInterceptor, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	validator, err := protovalidate.New()
	if err != nil {
		return nil, nil, fmt.Errorf("serve: make the message validator: %w", err)
	}
	v := validation{validator: validator, obvious: newObvious(), maxBytes: o.MaxRecvBytes}
	unary := []grpc.UnaryServerInterceptor{
		recoverUnary(o.Log), errs.UnaryServerInterceptor(o.Log), logUnary(o.Log),
	}
	stream := []grpc.StreamServerInterceptor{
		recoverStream(o.Log), errs.StreamServerInterceptor(o.Log), logStream(o.Log),
	}
	if o.Local {
		unary = append(unary, authorityUnary)
		stream = append(stream, authorityStream)
	}
	unary = append(unary, identity.UnaryServerInterceptor(o.Auth), noteCallerUnary, v.unary)
	stream = append(stream, identity.StreamServerInterceptor(o.Auth), noteCallerStream, v.stream)
	return unary, stream, nil
}

func recoverUnary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if p := recover(); p != nil {
				resp, err = nil, panicked(ctx, log, info.FullMethod, p)
			}
		}()
		return next(ctx, req)
	}
}

func recoverStream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicked(ss.Context(), log, info.FullMethod, p)
			}
		}()
		return next(srv, ss)
	}
}

// panicked tells the caller as little as is useful; the stack is for the log.
func panicked(ctx context.Context, log *slog.Logger, method string, p any) error {
	log.ErrorContext(ctx, "a handler panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
		"the service failed inside (%v); this is a bug, the log has its place", p).GRPCStatus().Err()
}
