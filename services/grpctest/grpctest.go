package grpctest

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// unreadBytes is how much of a stream the server can send before a test reads it.
const unreadBytes = 64 << 10

// Serve serves the services that register registers, and returns a connection to them; both are closed with the test. With zero
// options it serves like an installation without keys: everyone is the user `local`.
func Serve(t testing.TB, register func(grpc.ServiceRegistrar), o serve.Options) *grpc.ClientConn {
	t.Helper()
	return Server(t, register, o)("")
}

// Server is Serve for tests with several callers: dial returns a connection that sends the token.
func Server(t testing.TB, register func(grpc.ServiceRegistrar), o serve.Options) (dial func(token string) *grpc.ClientConn) {
	t.Helper()
	if o.Auth == nil {
		o.Auth, o.Local = identity.Local(), true
	}
	srv, err := serve.New(o)
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	register(srv)
	lis := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, lis) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return func(token string) *grpc.ClientConn {
		t.Helper()
		conn, err := grpc.NewClient("passthrough:///localhost",
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(identity.BearerCredentials(token)),
			grpc.WithStaticStreamWindowSize(unreadBytes), grpc.WithStaticConnWindowSize(1<<20))
		if err != nil {
			t.Fatalf("dial the server: %v", err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}
