package identity

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

const (
	authorizationKey = "authorization"
	onBehalfKey      = "x-pawl-on-behalf-of" // its value is percent-encoded: metadata is ASCII, user ids need not be
	healthPrefix     = "/grpc.health.v1.Health/"
)

// UnaryServerInterceptor authenticates every call and puts the principal into its context. Health checks are exempt,
// for probes have no credential; reflection is not.
func UnaryServerInterceptor(a Authenticator) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		ctx, err := authenticate(ctx, a, info.FullMethod)
		if err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// StreamServerInterceptor is the same for streams.
func StreamServerInterceptor(a Authenticator) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		ctx, err := authenticate(ss.Context(), a, info.FullMethod)
		if err != nil {
			return err
		}
		ps := &principalStream{ServerStream: ss, ctx: ctx, again: func() error {
			_, err := authenticate(ss.Context(), a, info.FullMethod)
			return err
		}}
		ps.checked.Store(time.Now().UnixNano())
		return next(srv, ps)
	}
}

// recheckEvery is how long a stream may go on without its credential being looked at again.
const recheckEvery = time.Second

// principalStream ends a stream whose credential was taken away: nothing is sent to it any more, nor taken from it.
type principalStream struct {
	grpc.ServerStream
	ctx     context.Context
	again   func() error
	checked atomic.Int64 // when the credential was last looked at, in Unix nanoseconds
}

func (s *principalStream) Context() context.Context { return s.ctx }

func (s *principalStream) SendMsg(m any) error {
	if err := s.recheck(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg looks at the credential when the message is there, which may be long after it was waited for.
func (s *principalStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.recheck()
}

func (s *principalStream) recheck() error {
	now := time.Now().UnixNano()
	if time.Duration(now-s.checked.Load()) < recheckEvery {
		return nil
	}
	if err := s.again(); err != nil {
		return err
	}
	s.checked.Store(now)
	return nil
}

func authenticate(ctx context.Context, a Authenticator, method string) (context.Context, error) {
	if strings.HasPrefix(method, healthPrefix) {
		return ctx, nil
	}
	token, err := bearerToken(ctx)
	if err != nil {
		return nil, err
	}
	p, err := a.Authenticate(ctx, token)
	if err != nil {
		return nil, err
	}
	sub, given, err := onBehalfOf(ctx)
	if err != nil {
		return nil, err
	}
	if given {
		if p, err = delegate(a, p, sub); err != nil {
			return nil, err
		}
	}
	return NewContext(ctx, p), nil
}

// bearerToken returns the token of the call, "" where there is none. Two credentials on one call are refused rather than
// guessed between.
func bearerToken(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, authorizationKey)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", unauthenticated("the call has %d authorization headers; send one", len(values))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return "", unauthenticated("the authorization header is not `Bearer TOKEN`")
	}
	return token, nil
}

func onBehalfOf(ctx context.Context) (sub string, given bool, err error) {
	values := metadata.ValueFromIncomingContext(ctx, onBehalfKey)
	if len(values) == 0 {
		return "", false, nil
	}
	if len(values) > 1 {
		return "", false, invalidOnBehalf("is there %d times", len(values))
	}
	sub, err = url.PathUnescape(values[0])
	if err != nil {
		return "", false, invalidOnBehalf("is not percent-encoded: %w", err)
	}
	if err := CheckSub(sub); err != nil {
		return "", false, invalidOnBehalf("names no user: %w", err)
	}
	return sub, true, nil
}

func invalidOnBehalf(format string, args ...any) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"the metadata "+onBehalfKey+" "+format, args...)
}
