package outbound

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"
)

// dialLimit is how long establishing one TCP connection may take.
const dialLimit = 10 * time.Second

// nonPublic are the ranges that are not public and that netip's methods do not cover (IANA's registries of special-purpose addresses).
var nonPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // carrier-grade NAT, some clouds' metadata
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved and broadcast
	netip.MustParsePrefix("::/96"),           // IPv4-compatible; this and the next five contain an IPv4 address
	netip.MustParsePrefix("::ffff:0:0:0/96"), // IPv4-translated
	netip.MustParsePrefix("64:ff9b::/96"),    // NAT64
	netip.MustParsePrefix("64:ff9b:1::/48"),  // NAT64, local use
	netip.MustParsePrefix("2002::/16"),       // 6to4
	netip.MustParsePrefix("2001::/32"),       // Teredo
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("fec0::/10"),       // site-local
}

// reach decides which addresses may be dialled. It checks the resolved address of each connection, so that redirects and changes in DNS
// cannot evade the check.
type reach struct {
	allowed   []netip.Prefix // ranges that may be dialled beside public addresses
	only      bool           // public addresses may not be dialled
	advice    string         // ends a refusal
	trusted   sync.Map       // host:port as written in a URL, which may be dialled whatever they resolve to
	unchecked *net.Dialer
	checked   *net.Dialer
}

func newReach(s Server) *reach {
	r := &reach{allowed: s.Allowed, only: s.AllowedOnly, advice: s.Advice, unchecked: &net.Dialer{Timeout: dialLimit}}
	r.checked = &net.Dialer{Timeout: dialLimit, Control: func(_, address string, _ syscall.RawConn) error { return r.check(address) }}
	return r
}

// trust allows connections to the host of a URL whatever its address, because an operator chose the URL.
func (r *reach) trust(u *url.URL) {
	r.trusted.Store(net.JoinHostPort(u.Hostname(), PortOf(u)), true)
}

// dial connects to host:port.
func (r *reach) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if _, trusted := r.trusted.Load(address); trusted {
		return r.unchecked.DialContext(ctx, network, address)
	}
	c, err := r.checked.DialContext(ctx, network, address)
	if host, _, _ := net.SplitHostPort(address); !isLiteral(host) {
		err = hideName(err, r.advice)
	}
	return c, err
}

// proxy returns the proxy from the pool's environment, and trusts it. The addresses behind a proxy cannot be checked.
func (r *reach) proxy(req *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(req)
	if u != nil {
		r.trust(u)
	}
	return u, err
}

// CheckLiteral returns an error for a URL whose host is an address that may not be dialled. It resolves no names.
func CheckLiteral(address string, s Server) error {
	if u, err := url.Parse(address); err == nil && isLiteral(u.Hostname()) {
		return newReach(s).check(net.JoinHostPort(u.Hostname(), "0"))
	}
	return nil
}

// isLiteral reports whether a host is an address, not a name.
func isLiteral(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// check returns an error for a resolved address that may not be dialled.
func (r *reach) check(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return refuseAddress("%s cannot be checked", address)
	}
	a := ap.Addr().Unmap().WithZone("")
	switch {
	case slices.ContainsFunc(r.allowed, func(p netip.Prefix) bool { return p.Contains(a) }):
		return nil
	case isPublic(a) && r.only:
		return refuseAddress("%s may not be reached: "+r.advice, a.String())
	case isPublic(a):
		return nil
	}
	return refuseAddress("%s is a loopback, private, link-local or reserved address: "+r.advice, a.String())
}

// ParseRanges parses ranges of addresses, such as 10.1.0.0/16.
func ParseRanges(texts []string) ([]netip.Prefix, error) {
	list := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("the range of allowed addresses %q cannot be read; write it like 10.1.0.0/16 or fd00::/8", text)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// isPublic reports whether an address is public. a must have no zone, and an IPv4 address must be unmapped.
func isPublic(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	return !slices.ContainsFunc(nonPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Probe connects to a server's host without sending a request. If clients would use a proxy, it does not connect. It returns a
// description of what it found.
func Probe(ctx context.Context, s Server) (string, error) {
	reach, u := newReach(s), s.Origin
	if !s.PublicOnly {
		reach.trust(u)
		if proxy, err := reach.proxy(&http.Request{URL: u}); err == nil && proxy != nil {
			return "not tried: it is reached through the proxy " + Place(proxy), nil
		}
	}
	address := net.JoinHostPort(u.Hostname(), PortOf(u))
	conn, err := reach.dial(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // nothing was written
	remote := conn.RemoteAddr().String()
	if u.Scheme != "https" {
		return remote, nil
	}
	secure := tls.Client(conn, &tls.Config{ServerName: u.Hostname()})
	if err := secure.HandshakeContext(ctx); err != nil {
		return "", fmt.Errorf("no secure connection to %s: %w", address, err)
	}
	return remote + ", " + tls.VersionName(secure.ConnectionState().Version), nil
}

// PortOf returns a URL's port, or the default port of its scheme.
func PortOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
}
