package serve_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/identity/identitytest"
	"pawl.dev/services/serve"
)

// ticker is a service whose stream sends until its client is gone.
type ticker struct {
	testgrpc.UnimplementedTestServiceServer
}

func (ticker) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, ss testgrpc.TestService_StreamingOutputCallServer) error {
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-tick.C:
			if err := ss.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
				return err
			}
		case <-ss.Context().Done():
			return nil
		}
	}
}

// Issue 13, shown by 4: a stream outlives a rotation of its issuer's keys, and ends when its token expires or its issuer is revoked.
func TestStreamsOfTokens(t *testing.T) {
	t.Parallel()
	provider := identitytest.NewProvider(t)
	token := func(sub string, valid time.Duration) string {
		return provider.Token(map[string]any{"sub": sub, "exp": time.Now().Add(valid).Unix()})
	}
	file := identitytest.File(t, "issuers:\n"+provider.Entry("  clock_skew: 0s\n"))
	callers, err := identity.Open("", file)
	if err != nil {
		t.Fatal(err)
	}
	addr := serveTicker(t, callers)

	long := tick(t, addr, token("ann", time.Hour))
	short := tick(t, addr, token("bob", 3*time.Second))
	provider.Publish(provider.Key(), identitytest.RSA("k2"))
	if err := <-short; status.Code(err) != codes.Unauthenticated {
		t.Errorf("the stream of an expired token ended with %v", err)
	}
	conn := dialToken(t, addr, token("eve", time.Hour))
	for end := time.Now().Add(30 * time.Second); ; {
		who, err := identityv1.NewIdentityServiceClient(conn).WhoAmI(t.Context(), &identityv1.WhoAmIRequest{})
		if err == nil {
			if who.GetSub() != "eve" || who.GetIssuer() != provider.URL || who.GetExpireTime() == nil {
				t.Errorf("the caller is %v", who)
			}
			break
		}
		if status.Code(err) != codes.Unauthenticated || time.Now().After(end) {
			t.Fatalf("with a token of the new key: %v", err)
		}
		<-time.After(100 * time.Millisecond)
	}
	rotated := tick(t, addr, token("eve", time.Hour))
	select {
	case err := <-long:
		t.Fatalf("the rotation ended a stream: %v", err)
	case err := <-rotated:
		t.Fatalf("the stream of a new key ended: %v", err)
	case <-time.After(1500 * time.Millisecond): // longer than between two checks
	}
	identitytest.Write(t, file, "issuers:\n- {issuer: 'https://other.invalid', audience: pawl}\n")
	for name, stream := range map[string]<-chan error{"old key": long, "new key": rotated} {
		if err := <-stream; status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: after the issuer was revoked, the stream ended with %v", name, err)
		}
	}
}

// serveTicker serves a ticker until the test ends, and returns its address.
func serveTicker(t *testing.T, auth identity.Authenticator) string {
	t.Helper()
	lis, err := serve.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := serve.New(serve.Options{Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	testgrpc.RegisterTestServiceServer(srv, ticker{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, lis) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

func dialToken(t *testing.T, addr, token string) *grpc.ClientConn {
	t.Helper()
	conn, err := serve.Dial(addr, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// tick reads a stream of ticks, after the first one in the background, and returns how it ends.
func tick(t *testing.T, addr, token string) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := testgrpc.NewTestServiceClient(dialToken(t, addr, token)).StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended
}
