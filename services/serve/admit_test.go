package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/test/bufconn"

	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// pipes is a listener of connections in memory. Their addresses are those of the listener.
func pipes(t *testing.T) *bufconn.Listener {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	t.Cleanup(func() { _ = lis.Close() })
	return lis
}

// connect returns both ends of a new connection.
func connect(t *testing.T, lis *bufconn.Listener, admitted net.Listener) (client, server net.Conn) {
	t.Helper()
	dialed := make(chan net.Conn, 1)
	go func() {
		c, err := lis.Dial()
		if err != nil {
			t.Error(err)
		}
		dialed <- c
	}()
	server, err := admitted.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return <-dialed, server
}

// clientsAt returns a listener whose next connection comes from an address.
type clientsAt struct {
	net.Listener
	addr string
}

func (l *clientsAt) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return remote{c, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(l.addr), 1))}, err
}

type remote struct {
	net.Conn
	addr net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.addr }

func isClosed(c net.Conn) bool {
	_, err := c.Read(make([]byte, 1))
	return err != nil
}

// Issue 13: connections without a credential are few, short, and small.
func TestStrangersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lis := pipes(t)
		admitted := serve.Admit(lis, "test", serve.Limits{})

		trusted, server := connect(t, lis, admitted)
		if err := serve.Trust(server.LocalAddr(), "ann"); err != nil {
			t.Error(err)
		}
		short, _ := connect(t, lis, admitted)
		large, reader := connect(t, lis, admitted)

		go func() { _, _ = large.Write(make([]byte, 1<<20)) }()
		n, err := io.Copy(io.Discard, reader)
		if err == nil || n > 256<<10 {
			t.Errorf("%d bytes were taken: %v", n, err)
		}
		go func() { _, _ = trusted.Write(make([]byte, 1<<20)); _ = trusted.Close() }()
		if n, err := io.Copy(io.Discard, server); err != nil || n != 1<<20 {
			t.Errorf("of a trusted connection, %d bytes were taken: %v", n, err)
		}

		oldest := short
		for range 256 {
			connect(t, lis, admitted)
		}
		synctest.Wait()
		if !isClosed(oldest) {
			t.Error("the oldest of too many strangers is open")
		}
		last, _ := connect(t, lis, admitted)
		kept, server := connect(t, lis, admitted)
		if err := serve.Trust(server.LocalAddr(), "ann"); err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if !isClosed(last) {
			t.Error("a stranger is open after a minute")
		}
		go func() { _, _ = server.Write([]byte("x")) }()
		if isClosed(kept) {
			t.Error("a trusted connection was closed")
		}
	})
}

// A client that reconnects all the time ends its own connections, not those of other addresses. A network of IPv6 counts as one address.
func TestFloodOfOneAddressEndsItsOwnConnections(t *testing.T) {
	for name, flood := range map[string]func(n int) string{
		"IPv4":         func(int) string { return "192.0.2.1" },
		"IPv4 in IPv6": func(n int) string { return []string{"192.0.2.1", "::ffff:192.0.2.1"}[n%2] },
		"IPv6":         func(n int) string { return fmt.Sprintf("2001:db8::%x:1", n) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lis := pipes(t)
				from := &clientsAt{Listener: lis}
				admitted := serve.Admit(from, "test", serve.Limits{AnonymousConnections: 8})
				at := func(addr string) net.Conn {
					from.addr = addr
					client, _ := connect(t, lis, admitted)
					return client
				}
				others := []net.Conn{at("192.0.2.2"), at("2001:db8:0:1::1"), at("2001:db8:0:2::1")}
				var last net.Conn
				for n := range 20 {
					last = at(flood(n))
				}
				for i, other := range append(others, last) {
					_ = other.SetReadDeadline(time.Now().Add(time.Second))
					if _, err := other.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
						t.Errorf("connection %d was closed: %v", i, err)
					}
				}
			})
		})
	}
}

// Issue 13: a user's connections are bounded, those of services are not, and a closed one makes room.
func TestConnectionsOfAUserAreBounded(t *testing.T) {
	lis := pipes(t)
	admitted := serve.Admit(lis, "test", serve.Limits{UserConnections: 2, ClientConnections: 6})
	conn := func(user string) (net.Conn, error) {
		t.Helper()
		_, server := connect(t, lis, admitted)
		return server, serve.Trust(server.LocalAddr(), user)
	}
	first, err := conn("ann")
	for _, user := range []string{"ann", "bob", ""} {
		if _, more := conn(user); more != nil {
			err = more
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	third, err := conn("ann")
	if errs.ReasonName(errs.Reason(err)) != "RATE_LIMITED" || !strings.Contains(err.Error(), "--user-connections") {
		t.Errorf("the third of a user: %v", err)
	}
	if err := serve.Trust(first.LocalAddr(), "ann"); err != nil {
		t.Errorf("another call on the first: %v", err)
	}
	_ = first.Close()
	_ = first.Close()
	if err := serve.Trust(third.LocalAddr(), "ann"); err != nil {
		t.Errorf("after one was closed: %v", err)
	}
	// Six are open with these two; the seventh is closed at once, and Accept waits for the next one.
	conn("")
	conn("")
	go func() { _, _ = admitted.Accept() }()
	client, err := lis.Dial()
	if err != nil {
		t.Fatal(err)
	}
	if !isClosed(client) {
		t.Error("one more than all clients may have is open")
	}
}

// Issue 13: a call with a valid credential makes its connection trusted.
func TestCallMakesItsConnectionTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
		if err != nil {
			t.Fatal(err)
		}
		srv, err := serve.New(serve.Options{Auth: keys})
		if err != nil {
			t.Fatal(err)
		}
		(&service{UnaryFn: func(context.Context) error { return nil }}).register(srv)
		lis := pipes(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(ctx, lis) }()
		dials := 0
		conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(identity.BearerCredentials(keys.Ephemeral("alice", []identity.Role{identity.RoleUser}))),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { dials++; return lis.Dial() }))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := testgrpc.NewTestServiceClient(conn).UnaryCall(t.Context(), &testgrpc.SimpleRequest{}); err != nil {
				t.Error(err)
			}
			<-time.After(2 * time.Minute)
		}
		if dials != 1 {
			t.Errorf("dialed %d times", dials)
		}
		_ = conn.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
