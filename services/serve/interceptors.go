package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/loopback"
)

// defaultMaxRecv is 4 MiB, the limit of a field with exact JSON, plus room for the rest of the message.
const defaultMaxRecv = 4<<20 + 256<<10

// MaxRequest returns the most bytes that a user's request to a method may have, as its proto says (pawl/common/v1/limits.proto).
func MaxRequest(method protoreflect.MethodDescriptor) int {
	of := func(d protoreflect.Descriptor, option protoreflect.ExtensionType) int {
		bytes, _ := proto.GetExtension(d.Options(), option).(int32)
		return int(bytes)
	}
	return cmp.Or(of(method, commonv1.E_MaxRequestBytes), of(method.Parent(), commonv1.E_MaxServiceRequestBytes), 1<<20)
}

// maxRequest is MaxRequest for a method's full name: /package.Service/Method. It returns the limit of the server for a method without a descriptor.
func (i *interceptor) maxRequest(fullMethod string) int {
	if known, ok := i.maxRequests.Load(fullMethod); ok {
		return known.(int) //nolint:forcetypeassert // it holds nothing else
	}
	most := i.maxBytes
	name := strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", ".")
	if d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name)); err == nil {
		if method, ok := d.(protoreflect.MethodDescriptor); ok {
			most = min(most, MaxRequest(method))
		}
	}
	i.maxRequests.Store(fullMethod, most)
	return most
}

// Options are the settings of a server that differ between services.
type Options struct {
	Auth         identity.Authenticator // required
	Log          *slog.Logger           // nil: nothing is logged
	MaxRecvBytes int                    // largest message taken; 0: 4.25 MiB
	Certificates *Certificates          // nil: no TLS
	Limits       Limits                 // of connections
	Requests     *Budget                // bounds the memory of requests over a network; nil: nothing does
	// Drained, if set, makes a stopping server take calls until the channel is closed, for clients that have running calls. Meanwhile
	// its health is NOT_SERVING.
	Drained <-chan struct{}
	// MaxConnectionAge is the age at which a client is asked to reconnect, and so to resolve names again; 0 means half an hour.
	MaxConnectionAge time.Duration
	Local            bool // there are no API keys: only calls to a loopback authority are taken
}

// Interceptors returns the interceptors of every call, for gRPC servers and in-process connections alike.
func Interceptors(o Options) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor, error) {
	i, err := newInterceptor(&o)
	if err != nil {
		return nil, nil, err
	}
	return i.unary, i.stream, nil
}

// interceptor does all steps of the package comment. A chain of interceptors would cost a closure, and often a context, per step and call.
type interceptor struct {
	log       *slog.Logger
	auth      identity.Authenticator
	local     bool
	validator protovalidate.Validator
	maxBytes  int
	requests  *Budget
	open      openStreams
	writeTime time.Duration // how long a client may take to read from a stream of responses; 0: any time
	// maxRequests has the results of maxRequest by method.
	maxRequests sync.Map
}

// newInterceptor checks the options and fills in their defaults.
func newInterceptor(o *Options) (*interceptor, error) {
	if o.Auth == nil {
		return nil, errors.New("serve: Options.Auth is missing; use identity.Local() or a key file")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxRecvBytes < 0 {
		return nil, fmt.Errorf("serve: Options.MaxRecvBytes is %d; it cannot be negative", o.MaxRecvBytes)
	}
	o.MaxRecvBytes = cmp.Or(o.MaxRecvBytes, defaultMaxRecv)
	o.Limits = o.Limits.WithDefaults()
	o.MaxConnectionAge = cmp.Or(o.MaxConnectionAge, maxConnectionAge)
	validator, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("serve: make the message validator: %w", err)
	}
	return &interceptor{log: o.Log, auth: o.Auth, local: o.Local, validator: validator, maxBytes: o.MaxRecvBytes, requests: o.Requests, open: openStreams{every: sweepEvery}}, nil
}

func (i *interceptor) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, panicError(ctx, i.log, info.FullMethod, p)
		}
	}()
	start, authCtx := time.Now(), ctx
	if err = i.checkAuthority(ctx); err == nil {
		authCtx, err = identity.Authenticate(ctx, i.auth, info.FullMethod)
	}
	if err == nil {
		err = i.validate(req, i.maxBytes)
	}
	if err == nil {
		resp, err = next(authCtx, req)
	}
	logCall(authCtx, i.log, info.FullMethod, time.Since(start), err)
	if err != nil {
		return nil, identity.ErrorFor(authCtx, err).GRPCStatus().Err()
	}
	return resp, nil
}

func (i *interceptor) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return i.streamWith(ss.Context(), srv, ss, info, next)
}

// streamWith is stream with ctx in place of the stream's own context.
func (i *interceptor) streamWith(ctx context.Context, srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(ctx, i.log, info.FullMethod, p)
		}
	}()
	start, authCtx := time.Now(), ctx
	if err = i.checkAuthority(ctx); err == nil {
		authCtx, err = identity.Authenticate(ctx, i.auth, info.FullMethod)
	}
	if err == nil {
		err = i.serveStream(authCtx, srv, &checkedStream{ServerStream: ss, interceptor: i, ctx: authCtx, method: info.FullMethod, begun: start, limit: i.maxBytes}, info, next)
	}
	logCall(authCtx, i.log, info.FullMethod, time.Since(start), err)
	if err != nil {
		return identity.ErrorFor(authCtx, err).GRPCStatus().Err()
	}
	return nil
}

// serveStream runs the handler, with the memory of its request reserved. gRPC does not say how large a message is before it has it, so a user's
// call counts for the largest that gRPC takes until then. Services need no such reserve.
func (i *interceptor) serveStream(authCtx context.Context, srv any, ss *checkedStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	p, err := identity.FromContext(authCtx)
	if err != nil { // a health check
		return next(srv, ss)
	}
	user, reserve := budgetUser(p), 0
	if from, ok := peer.FromContext(authCtx); ok {
		if err := Trust(from.LocalAddr, user); err != nil {
			return err
		}
	}
	if ss.streams, ss.receives = info.IsServerStream, info.IsClientStream; user != "" {
		ss.limit, reserve = i.maxRequest(info.FullMethod), i.maxBytes
	}
	if ss.held, err = i.requests.Reserve(authCtx, user, CallBytes(ss.streams, int64(reserve))); err != nil {
		return err
	}
	defer ss.held.Release()
	if info.IsServerStream || info.IsClientStream {
		ss.transport, _ = grpc.ServerTransportStreamFromContext(authCtx).(transportStream)
	}
	if ss.transport == nil {
		return next(srv, ss)
	}
	i.open.add(ss)
	defer i.open.remove(ss)
	err = next(srv, ss)
	if ended := ss.ended.Load(); ended != nil {
		return *ended
	}
	return err
}

// panicError logs a panic with its stack, and returns an error for the caller, without the stack.
func panicError(ctx context.Context, log *slog.Logger, method string, p any) error {
	log.ErrorContext(ctx, "a handler panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
		"the service panicked (%v); this is a bug, and the log has its stack", p).GRPCStatus().Err()
}

// validate refuses a message that is too large or breaks the rules in its proto.
func (i *interceptor) validate(msg any, limit int) error {
	m, ok := msg.(proto.Message)
	if !ok {
		return nil
	}
	if n := proto.Size(m); n > limit {
		return errs.TooLarge(int64(n), int64(limit))
	}
	return i.validator.Validate(m)
}

// checkAuthority protects installations without keys. Loopback is their only protection, and a web page can reach loopback
// under a name of its own that resolves to 127.0.0.1. Such a call has that name as its authority.
func (i *interceptor) checkAuthority(ctx context.Context) error {
	if !i.local {
		return nil
	}
	values := metadata.ValueFromIncomingContext(ctx, ":authority")
	if len(values) == 1 && loopback.Is(values[0]) {
		return nil
	}
	return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		"the call is addressed to %q; without API keys only calls to localhost or a loopback address are taken. "+
			"Dial 127.0.0.1, or start the service with a key file", strings.Join(values, ", "))
}

// logCall logs a call that has ended. If the caller was authenticated, ctx has its principal.
func logCall(ctx context.Context, log *slog.Logger, method string, took time.Duration, err error) {
	level, code := slog.LevelDebug, codes.OK
	if err != nil {
		code = errs.From(err).Code
		level = levelOf(code)
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", code.String()), slog.Duration("duration", took)}
	if p, err := identity.FromContext(ctx); err == nil {
		attrs = append(attrs, slog.String("sub", p.Sub))
		if p.OnBehalf {
			attrs = append(attrs, slog.Bool("on_behalf", true))
		}
	}
	if err != nil {
		attrs = append(attrs, slog.String("reason", errs.ReasonName(errs.Reason(err))), slog.String("error", err.Error()))
	}
	log.LogAttrs(ctx, level, "call", attrs...)
}

// levelOf returns ERROR for faults of Pawl, WARN for failures that an operator should look at, and DEBUG for the rest, such as mistakes
// of callers.
func levelOf(failure codes.Code) slog.Level {
	switch failure {
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.OK:
		return slog.LevelError
	case codes.Unavailable:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}
