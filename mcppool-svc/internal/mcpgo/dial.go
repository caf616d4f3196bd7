package mcpgo

import (
	"net"
	"net/netip"
	"syscall"
	"time"

	"pawl.dev/mcppool-svc/internal/upstream"
)

// dialLimit bounds the making of one TCP connection.
const dialLimit = 10 * time.Second

// inward are ranges that lead into somebody's own network and that netip's own questions do not cover.
var inward = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),      // this network
	netip.MustParsePrefix("100.64.0.0/10"),  // carrier-grade NAT, some clouds' metadata
	netip.MustParsePrefix("192.0.0.0/24"),   // protocol assignments
	netip.MustParsePrefix("198.18.0.0/15"),  // benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),    // reserved and broadcast
	netip.MustParsePrefix("64:ff9b::/96"),   // NAT64: an IPv4 address inside
	netip.MustParsePrefix("64:ff9b:1::/48"), // the same, local
	netip.MustParsePrefix("2002::/16"),      // 6to4: an IPv4 address inside
	netip.MustParsePrefix("2001::/32"),      // Teredo: the same
	netip.MustParsePrefix("fec0::/10"),      // site-local
}

// newDialer makes TCP connections; with publicOnly none to an address inside some network. The check is made on the
// address that is dialled, after resolving, so that neither a name nor a redirect gets round it.
func newDialer(publicOnly bool) *net.Dialer {
	d := &net.Dialer{Timeout: dialLimit}
	if publicOnly {
		d.Control = func(_, address string, _ syscall.RawConn) error { return checkPublic(address) }
	}
	return d
}

func checkPublic(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return upstream.Errorf(upstream.Misconfigured, "the address %s cannot be checked: %w", address, err)
	}
	if !isPublic(ap.Addr()) {
		return upstream.Errorf(upstream.Misconfigured,
			"%s is a loopback, private or link-local address: only an operator may register a server there", ap.Addr())
	}
	return nil
}

func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range inward {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
