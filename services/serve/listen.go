package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// CheckBind returns an error for an address other than loopback if callers are not authenticated.
func CheckBind(addr string, authenticated bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("the address %q is not host:port: %w", addr, err)
	}
	if authenticated || host != "" && LoopbackHost(host) {
		return nil
	}
	return fmt.Errorf("refusing to listen on %q: without API keys everyone who reaches it could do everything. "+
		"Listen on 127.0.0.1 instead, or give a key file with --keys (`pawl keys add` makes keys). "+
		"A gateway that runs as a process of its own has no --keys: give the services the key file, and the gateway --authenticated", addr)
}

// Listen opens a TCP listener. Its errors say what to do next.
func Listen(addr string) (net.Listener, error) {
	lis, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err == nil {
		return lis, nil
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the address %s is in use; choose another with its flag (see --help), or stop the process that uses it: %w", addr, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("no permission to listen on %s; choose a port above 1023 with the address's flag (see --help): %w", addr, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is not an address of this machine; choose 127.0.0.1 or one that it has: %w", addr, err)
	case errors.As(err, &dns):
		return nil, fmt.Errorf("the host of %s cannot be resolved; choose 127.0.0.1 or an address: %w", addr, err)
	}
	return nil, fmt.Errorf("cannot listen on %s; give it as host:port: %w", addr, err)
}

// LoopbackHost reports whether a host, with or without a port, is `localhost` or a loopback address. It resolves no names,
// because the owner of a name could make it resolve to 127.0.0.1.
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
