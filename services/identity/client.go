package identity

import (
	"context"
	"net/url"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// OnBehalfOf returns a context whose outgoing calls speak for that user. The caller's own key must have role service. It
// replaces a user that was set before.
func OnBehalfOf(ctx context.Context, sub string) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		md = metadata.MD{}
	}
	md.Set(onBehalfKey, url.PathEscape(sub))
	return metadata.NewOutgoingContext(ctx, md)
}

// BearerCredentials sends the token with every call; "" sends nothing. They work on connections without TLS too, which
// is what loopback has.
func BearerCredentials(token string) credentials.PerRPCCredentials {
	if token == "" {
		return bearer{}
	}
	return bearer{header: map[string]string{authorizationKey: BearerHeader(token)}}
}

// bearer has the header of all calls, which is only read.
type bearer struct{ header map[string]string }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return b.header, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// BearerHeader is the value of the authorization header for a token.
func BearerHeader(token string) string { return "Bearer " + token }
