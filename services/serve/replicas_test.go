package serve_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/peer"

	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// noCertificates is for connections without TLS.
var noCertificates *serve.Certificates

// replica is a server on loopback.
type replica struct {
	addr    string
	stop    context.CancelFunc
	drained chan struct{}
	served  chan error
}

func startReplica(t *testing.T, addr string) *replica {
	t.Helper()
	r := &replica{drained: make(chan struct{}), served: make(chan error, 1)}
	srv, err := serve.New(serve.Options{Auth: identity.Local(), Local: true, Drained: r.drained})
	if err != nil {
		t.Fatal(err)
	}
	(&service{UnaryFn: func(context.Context) error { return nil }}).register(srv)
	var lis net.Listener
	if lis, err = serve.Listen(addr); err != nil {
		t.Fatal(err)
	}
	r.addr = lis.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.served <- srv.Serve(ctx, lis) }()
	t.Cleanup(r.end)
	return r
}

func (r *replica) end() {
	r.stop()
	select {
	case <-r.drained:
	default:
		close(r.drained)
		<-r.served
	}
}

// reached returns the replica that answers calls of an affinity.
func reached(t *testing.T, c grpc.ClientConnInterface, parts ...string) string {
	t.Helper()
	var to peer.Peer
	_, err := testgrpc.NewTestServiceClient(c).UnaryCall(serve.WithAffinity(t.Context(), parts...), &testgrpc.SimpleRequest{}, grpc.Peer(&to), grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return to.Addr.String()
}

func dialReplicas(t *testing.T, replicas ...*replica) *serve.Replicas {
	t.Helper()
	var addrs []string
	for _, r := range replicas {
		addrs = append(addrs, r.addr)
	}
	conn, err := noCertificates.DialReplicas(strings.Join(addrs, ", "), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const keys = 60

func all(t *testing.T, c grpc.ClientConnInterface) map[int]string {
	t.Helper()
	at := map[int]string{}
	for i := range keys {
		at[i] = reached(t, c, "server", "user "+strconv.Itoa(i))
	}
	return at
}

// Calls of one affinity reach one replica; if that is gone, only its calls move, and they return when it does.
func TestAffinity(t *testing.T) {
	replicas := []*replica{startReplica(t, "127.0.0.1:0"), startReplica(t, "127.0.0.1:0"), startReplica(t, "127.0.0.1:0")}
	conn := dialReplicas(t, replicas...)
	before, used := all(t, conn), map[string]bool{}
	for i, at := range all(t, conn) {
		used[at] = true
		if before[i] != at {
			t.Errorf("key %d moved from %s to %s", i, before[i], at)
		}
	}
	if len(used) != 3 {
		t.Errorf("%d replicas are used", len(used))
	}
	if at := reached(t, dialReplicas(t, replicas[2], replicas[1], replicas[0]), "server", "user 1"); at != before[1] {
		t.Error("another client has other replicas for the same calls")
	}
	gone := replicas[0]
	gone.end()
	for i, at := range all(t, conn) {
		if before[i] != gone.addr && at != before[i] || at == gone.addr {
			t.Errorf("key %d was at %s and is at %s", i, before[i], at)
		}
	}
	startReplica(t, gone.addr)
	for i, at := range before {
		for reached(t, conn, "server", "user "+strconv.Itoa(i)) != at {
			if t.Context().Err() != nil {
				t.Fatal("calls do not come back")
			}
		}
	}
}

// A replica that is told to stop gets no new calls, and still answers clients that call it directly until it is drained.
func TestDrainingReplica(t *testing.T) {
	a, b := startReplica(t, "127.0.0.1:0"), startReplica(t, "127.0.0.1:0")
	conn := dialReplicas(t, a, b)
	at := reached(t, conn, "x")
	draining := map[string]*replica{a.addr: a, b.addr: b}[at]
	direct, err := conn.At(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() })
	watch, err := healthpb.NewHealthClient(direct).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	draining.stop()
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health: %v, %v", r, err)
	}
	for reached(t, conn, "x") == at { // until the client has heard of it
		if t.Context().Err() != nil {
			t.Fatal("calls go on to a replica that does not serve")
		}
	}
	if got := reached(t, direct, "x"); got != at {
		t.Errorf("answered by %s", got)
	}
	draining.end()
	if _, err := watch.Recv(); err == nil {
		t.Error("the watch of health goes on")
	}
}

func TestAddressesOfReplicas(t *testing.T) {
	for addr, several := range map[string]bool{"127.0.0.1:1": false, "a:1,b:2": true, "dns:///pool:7414": true, "": false} {
		if serve.Several(addr) != several {
			t.Errorf("Several(%q) = %v", addr, !several)
		}
	}
	for _, addr := range []string{"a:1,,b:2", "a:1,b", "dns:///pool", ""} {
		if conn, err := noCertificates.DialReplicas(addr, ""); err == nil {
			t.Errorf("%q was taken", addr)
			_ = conn.Close()
		}
	}
	conn, err := noCertificates.DialReplicas("dns:///localhost:7414", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	addrs, err := conn.Addrs(t.Context())
	if err != nil || len(addrs) == 0 || !strings.HasSuffix(addrs[0], ":7414") {
		t.Errorf("addresses %v, %v", addrs, err)
	}
}

// The affinity is text that a header can have, whatever the names of users and servers.
func TestAffinityOfOddNames(t *testing.T) {
	r := startReplica(t, "127.0.0.1:0")
	conn := dialReplicas(t, r, startReplica(t, "127.0.0.1:0"))
	var wg sync.WaitGroup
	for _, name := range []string{"a/b", "ä\n", "", "\x00"} {
		wg.Go(func() { reached(t, conn, name, name) })
	}
	wg.Wait()
}
