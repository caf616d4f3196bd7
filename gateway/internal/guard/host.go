package guard

import (
	"net"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/loopback"
)

// hosts are the names that a Host header may have.
type hosts struct {
	any     bool
	allowed map[string]bool // host, or host:port; lower case
}

func parseHosts(names []string) (hosts, error) {
	h := hosts{allowed: map[string]bool{}}
	for _, s := range names {
		if s == "" || strings.ContainsAny(s, "/@*, ") {
			return hosts{}, badConfig("--allow-host %q is not a host; give a name or address, with or without a port, such as pawl.example.com", s)
		}
		name := strings.ToLower(s)
		if _, _, err := net.SplitHostPort(name); err != nil { // no port, so any port is allowed
			name = hostName(name)
		}
		h.allowed[name] = true
	}
	return h, nil
}

func (h hosts) allow(hostHeader string) bool {
	if h.any {
		return true
	}
	full := strings.ToLower(hostHeader)
	name := hostName(full)
	return loopback.Is(hostHeader) || h.allowed[name] || h.allowed[full]
}

// hostName returns the host without its port, and an IPv6 address without brackets.
func hostName(hostHeader string) string {
	if host, _, err := net.SplitHostPort(hostHeader); err == nil {
		return strings.TrimSuffix(host, ".")
	}
	return strings.TrimSuffix(strings.Trim(hostHeader, "[]"), ".")
}

// sameOrigin reports whether an Origin header names the host and port that the request was sent to. The scheme is not
// compared: a proxy may have terminated TLS.
func sameOrigin(origin, hostHeader string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || hostHeader == "" {
		return false // such as `null`, the origin of sandboxed frames and files
	}
	return withPort(strings.ToLower(u.Host), u.Scheme) == withPort(strings.ToLower(hostHeader), u.Scheme)
}

func withPort(host, scheme string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

func parseOrigins(values []string) (map[string]bool, error) {
	origins := map[string]bool{}
	for _, s := range values {
		u, err := url.Parse(s)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.ContainsAny(u.Host, "*, ") ||
			strings.TrimSuffix(s, "/") != u.Scheme+"://"+u.Host {
			return nil, badConfig("--allow-origin %q is not an origin; give scheme://host[:port], such as https://console.example.com, "+
				"once for each (there is no wildcard)", s)
		}
		origins[strings.ToLower(strings.TrimSuffix(s, "/"))] = true
	}
	return origins, nil
}

func badConfig(format string, args ...any) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG, format, args...)
}
