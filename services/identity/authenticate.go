package identity

import (
	"context"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

const (
	authorizationKey = "authorization"
	onBehalfKey      = "x-pawl-on-behalf-of" // percent-encoded, because metadata must be ASCII and user ids need not be
	healthPrefix     = "/grpc.health.v1.Health/"
)

// Authenticate identifies the caller and returns the context with the principal in it, or ctx itself on failure. Health checks
// pass without a principal if they have no valid credential, because probes have none; reflection requires one.
func Authenticate(ctx context.Context, a Authenticator, method string) (context.Context, error) {
	authCtx, err := authenticate(ctx, a, method)
	if err != nil && strings.HasPrefix(method, healthPrefix) {
		return ctx, nil
	}
	return authCtx, err
}

func authenticate(ctx context.Context, a Authenticator, method string) (context.Context, error) {
	token, err := bearerToken(ctx)
	if err != nil {
		return ctx, err
	}
	p, err := a.Authenticate(ctx, token)
	if err != nil {
		return ctx, err
	}
	sub, ok, err := onBehalfOf(ctx)
	if err == nil {
		err = p.checkMethod(method, ok)
	}
	if err == nil && ok {
		p, err = delegate(a, p, sub)
	}
	if err != nil {
		return ctx, err
	}
	return NewContext(ctx, p), nil
}

// bearerToken returns the token of the call, or "" if none. It refuses a call with two credentials instead of choosing one.
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

func onBehalfOf(ctx context.Context) (sub string, ok bool, err error) {
	values := metadata.ValueFromIncomingContext(ctx, onBehalfKey)
	if len(values) == 0 {
		return "", false, nil
	}
	if len(values) > 1 {
		return "", false, invalidOnBehalf("is given %d times; give it once", len(values))
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

// OnBehalfOf returns a context whose outgoing calls are made on behalf of a user, instead of any user that was set before.
// The caller's own key must have the role service.
func OnBehalfOf(ctx context.Context, sub string) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		md = metadata.MD{}
	}
	md.Set(onBehalfKey, url.PathEscape(sub))
	return metadata.NewOutgoingContext(ctx, md)
}

// BearerCredentials returns credentials that send the token with every call, or nothing if it is empty. They also work on
// connections without TLS, such as loopback.
func BearerCredentials(token string) credentials.PerRPCCredentials {
	if token == "" {
		return bearer{}
	}
	return bearer{header: map[string]string{authorizationKey: BearerHeader(token)}}
}

// bearer holds the metadata of all calls, which is never changed.
type bearer struct{ header map[string]string }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return b.header, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// BearerHeader returns the value of the authorization header for a token.
func BearerHeader(token string) string { return "Bearer " + token }
