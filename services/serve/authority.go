package serve

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// checkAuthority protects installations without keys. Loopback is their only protection, and a web page can reach loopback
// under a name of its own that resolves to 127.0.0.1. Such a call has that name as its authority.
func (i *interceptor) checkAuthority(ctx context.Context) error {
	if !i.local {
		return nil
	}
	values := metadata.ValueFromIncomingContext(ctx, ":authority")
	if len(values) == 1 && LoopbackHost(values[0]) {
		return nil
	}
	return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		"the call is addressed to %q; without API keys only calls to localhost or a loopback address are taken. "+
			"Dial 127.0.0.1, or start the service with a key file", strings.Join(values, ", "))
}

// LoopbackHost says whether a host, with or without a port, is `localhost` or a loopback address. Other names are not
// resolved: others control what they resolve to. HTTP servers use it for the Host header.
func LoopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
