package peer

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/services/loopback"
)

const dnsScheme = "dns:///"

// Check validates the addresses of peers, and reports whether all of them are on this machine.
func Check(addrs []string) (local bool, err error) {
	if len(addrs) > maxPeers {
		return false, fmt.Errorf("there are %d --peers; the limit is %d", len(addrs), maxPeers)
	}
	local = true
	for _, addr := range addrs {
		name, isName := strings.CutPrefix(addr, dnsScheme)
		host, port, err := net.SplitHostPort(name)
		if err != nil || host == "" || port == "" {
			return false, fmt.Errorf("the --peers address %q cannot be read; give it as host:port, or as dns:///name:port where a name leads to all replicas", addr)
		}
		local = local && !isName && loopback.Is(addr)
	}
	return local, nil
}

// resolve updates the peers from the configured names. If a lookup fails, the name's peers stay.
func (s *Set) resolve(ctx context.Context) error {
	var addrs []string
	names := map[string]string{} // by address
	for _, addr := range s.cfg.Addrs {
		name, isName := strings.CutPrefix(addr, dnsScheme)
		if !isName {
			addrs = append(addrs, addr)
			continue
		}
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return fmt.Errorf("the --peers address %q: %w", addr, err)
		}
		hosts, err := s.cfg.Lookup(ctx, host)
		if err != nil {
			s.cfg.Log.WarnContext(ctx, "the other replicas of the MCP pool cannot be looked up; those that were known stay", "name", host, "error", err)
			return nil
		}
		for _, h := range hosts {
			addrs = append(addrs, net.JoinHostPort(h, port))
			names[net.JoinHostPort(h, port)] = name
		}
	}
	addrs = slices.DeleteFunc(addrs, s.isSelf)
	if len(addrs) > maxPeers {
		s.cfg.Log.WarnContext(ctx, "there are too many replicas of the MCP pool; some are left out", "replicas", len(addrs), "limit", maxPeers)
		slices.Sort(addrs)
		addrs = addrs[:maxPeers]
	}
	return s.adopt(addrs, names)
}

// isSelf reports whether an address is this replica's own. If that is not known, the first response tells.
func (s *Set) isSelf(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	mine, myPort, err2 := net.SplitHostPort(s.cfg.Self)
	if err != nil || err2 != nil || port != myPort {
		return false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host == mine
	}
	if my, err := netip.ParseAddr(mine); err == nil && !my.IsUnspecified() {
		return my.Unmap() == ip.Unmap()
	}
	local, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(local, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == ip.Unmap()
	})
}

// adopt connects to new peers and closes those that are no longer configured. names has the names of addresses that were looked up.
func (s *Set) adopt(addrs []string, names map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	for addr, p := range s.peers {
		if !slices.Contains(addrs, addr) {
			delete(s.peers, addr)
			_ = p.conn.Close() // running requests to it fail, which does no harm
		}
	}
	for _, addr := range addrs {
		if s.peers[addr] != nil {
			continue
		}
		conn, err := s.cfg.Dial(cmp.Or(names[addr], addr), addr)
		if err != nil {
			return err
		}
		s.peers[addr] = &peer{addr: addr, conn: conn, client: mcppoolv1.NewMcpPoolPeerServiceClient(conn), busy: make(chan struct{}, 1)}
	}
	return nil
}
