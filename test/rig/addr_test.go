package rig

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// localPortRange is IP_LOCAL_PORT_RANGE of ip(7), of Linux 6.3 and later: the ports that a socket is given if it asks for any.
const localPortRange = 51

// An address is reserved for the process that the test starts there: a listener on port 0 does not get it, and it can be listened on, once at a
// time and again.
func TestFreeAddrIsHeld(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("addresses are held on Linux alone")
	}
	addr := FreeAddr(t)
	if lis, err := anyPortOf(t, addr); err == nil {
		t.Errorf("another listener was given %s", lis.Addr())
		_ = lis.Close()
	} else if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.ENOPROTOOPT) {
		t.Errorf("listening on any port of one: %v", err)
	}
	for range 2 {
		lis, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := net.Listen("tcp", addr); err == nil {
			t.Error("two listen at once")
			_ = second.Close()
		}
		_ = lis.Close()
	}
}

// anyPortOf listens on a port that the system chooses, where the only choice is the port of addr.
func anyPortOf(t *testing.T, addr string) (net.Listener, error) {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	narrow := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (failed error) {
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, localPortRange, port<<16|port)
		})
		return errors.Join(err, failed)
	}}
	return narrow.Listen(context.Background(), "tcp", "127.0.0.1:0")
}
