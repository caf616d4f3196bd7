package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"pawl.dev/services/loopback"
)

// CheckBind returns an error for an address other than loopback if callers are not authenticated, or if there is neither TLS nor t.Insecure. If
// t.Insecure replaces TLS, it logs the consequences.
func CheckBind(addr string, authenticated bool, t TLS, log *slog.Logger) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("the address %q is not host:port: %w", addr, err)
	}
	switch {
	case host != "" && loopback.Is(host) || authenticated && t.Cert != "":
		return nil
	case authenticated && t.Insecure:
		log.Warn("listening without TLS because of --insecure: everyone on the network path can read and change all requests and answers, "+
			"and use the API keys that they see", "address", addr)
		return nil
	case authenticated:
		return fmt.Errorf("refusing to listen on %q without TLS: everyone on the network path could read all data and the API keys. "+
			"Give a certificate with --tls-cert and --tls-key (`pawl certs dev DIR` makes some to try it out), "+
			"listen on 127.0.0.1 behind a proxy that has TLS, or accept the risk with --insecure", addr)
	}
	return fmt.Errorf("refusing to listen on %q: without API keys everyone who reaches it could do everything. "+
		"Listen on 127.0.0.1 instead, or give a key file with --keys (`pawl keys add` makes keys) or a file of token issuers with --oidc. "+
		"A gateway that runs as a process of its own has neither: give the services the file, and the gateway --authenticated", addr)
}

// CheckKeyTransport returns an error if connections to the addresses would carry a service's key over a network without TLS, unless t.Insecure is set.
// flag is the name of the flag with the addresses.
func (t TLS) CheckKeyTransport(key, flag string, addrs ...string) error {
	if key == "" || t.CA != "" || t.Insecure {
		return nil
	}
	for addr := range strings.SplitSeq(strings.Join(addrs, ","), ",") {
		addr = strings.TrimPrefix(strings.TrimSpace(addr), dnsScheme)
		if addr != "" && !strings.HasPrefix(addr, tlsScheme) && !loopback.Is(addr) {
			return fmt.Errorf("refusing to send --service-key to %s (%s) without TLS: everyone on the network path could act for all users with it. "+
				"Give the authority of its certificate with --tls-ca, or accept the risk with --insecure", addr, flag)
		}
	}
	return nil
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
