// Package loopback tells which hosts are this machine. It resolves no names, because the owner of a name could make it resolve to 127.0.0.1.
package loopback

import (
	"net"
	"net/netip"
	"strings"
)

// Is reports whether a host, with or without a port, is `localhost` or a loopback address.
func Is(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
