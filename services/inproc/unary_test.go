package inproc_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

type (
	request  = testgrpc.SimpleRequest
	response = testgrpc.SimpleResponse
	connect  = func(*service) grpc.ClientConnInterface
)

func payload(text string) *testgrpc.Payload { return &testgrpc.Payload{Body: []byte(text)} }

func TestUnaryMessagesAreIsolated(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		kept := &response{Payload: payload("server")}
		c := testgrpc.NewTestServiceClient(connect(&service{UnaryFn: func(_ context.Context, in *request) (*response, error) {
			in.Payload.Body[0] = 'X'
			return kept, nil
		}}))
		in := &request{Payload: payload("client")}
		out, err := c.UnaryCall(t.Context(), in)
		if err != nil || string(in.Payload.Body) != "client" || string(out.Payload.Body) != "server" {
			t.Fatalf("in %v, out %v, %v", in, out, err)
		}
		out.Payload.Body[0] = 'X'
		if string(kept.Payload.Body) != "server" {
			t.Error("the client changed the server's message")
		}
	})
}

func TestUnaryMetadataDeadlineAndPeer(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		type secret struct{}
		seen := make(chan context.Context, 1)
		c := testgrpc.NewTestServiceClient(connect(&service{UnaryFn: func(ctx context.Context, _ *request) (*response, error) {
			seen <- ctx
			if ctx.Err() != nil {
				t.Error("the context is done while the handler runs")
			}
			return &response{}, errors.Join(
				grpc.SetHeader(ctx, metadata.Pairs("h", "1")), grpc.SetHeader(ctx, metadata.Pairs("h", "2")))
		}}))
		deadline := time.Now().Add(time.Hour)
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		defer cancel()
		ctx = context.WithValue(ctx, secret{}, "the client's")
		ctx = identity.NewContext(ctx, identity.Principal{Sub: "eve"})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("k", "from a call before"))
		ctx = metadata.AppendToOutgoingContext(ctx, "K", "v1", "k", "v2", "data-bin", "\x00\xff")

		var p peer.Peer
		if _, err := c.UnaryCall(ctx, &request{}, grpc.Peer(&p)); err != nil {
			t.Fatal(err)
		}
		if p.Addr == nil {
			t.Error("the client has no peer")
		}
		server := <-seen
		md, _ := metadata.FromIncomingContext(server)
		if diff := cmp.Diff([]string{"v1", "v2"}, md.Get("k")); diff != "" || md.Get("data-bin")[0] != "\x00\xff" {
			t.Errorf("incoming metadata = %v", md)
		}
		if out, ok := metadata.FromOutgoingContext(server); ok {
			t.Errorf("outgoing metadata came along: %v", out)
		}
		if server.Value(secret{}) != nil {
			t.Error("the handler sees the client's values")
		}
		if principal, _ := identity.FromContext(server); principal.Sub != "local" {
			t.Errorf("principal = %v", principal)
		}
		if got, ok := server.Deadline(); !ok || got.Sub(deadline).Abs() > time.Second {
			t.Errorf("deadline = %v, want %v", got, deadline)
		}
		if p, ok := peer.FromContext(server); !ok || p.Addr == nil {
			t.Error("the server has no peer")
		}
		if method, _ := grpc.Method(server); method != testgrpc.TestService_UnaryCall_FullMethodName {
			t.Errorf("method = %q", method)
		}
		if <-server.Done(); server.Err() == nil {
			t.Error("the handler's context goes on after the call")
		}
	})
}

func TestUnaryErrorsKeepTheirDetails(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		want := errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, "no task: %w", io.EOF).
			With("k", "v").WithViolation("f", "d").WithRetryAfter(time.Second)
		c := testgrpc.NewTestServiceClient(connect(&service{UnaryFn: func(ctx context.Context, _ *request) (*response, error) {
			return nil, want
		}}))
		_, err := c.UnaryCall(t.Context(), &request{})
		got := errs.From(err)
		if got.Code != want.Code || got.Reason != want.Reason || got.Message != want.Message ||
			!cmp.Equal(got.Metadata, want.Metadata) || !cmp.Equal(got.Violations, want.Violations) || got.RetryAfter != want.RetryAfter {
			t.Errorf("err = %#v", got)
		}
		if errors.Is(err, io.EOF) {
			t.Error("the server's cause reached the client")
		}
	})
}

// The client is back at once when it gives up, whatever the handler does, and the handler's context ends.
func TestUnaryCancellation(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		entered, told, release := make(chan struct{}), make(chan error, 1), make(chan struct{})
		c := testgrpc.NewTestServiceClient(connect(&service{UnaryFn: func(ctx context.Context, _ *request) (*response, error) {
			close(entered)
			<-ctx.Done()
			told <- ctx.Err()
			<-release
			return &response{}, nil
		}}))
		defer close(release)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-entered
			cancel()
		}()
		if _, err := c.UnaryCall(ctx, &request{}); status.Code(err) != codes.Canceled {
			t.Errorf("err = %v, want Canceled", err)
		}
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler saw %v", err)
		}
	})
}

func TestUnaryDeadline(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := testgrpc.NewTestServiceClient(connect(&service{UnaryFn: func(ctx context.Context, _ *request) (*response, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := c.UnaryCall(ctx, &request{}); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TIMEOUT {
			t.Errorf("err = %v, want TIMEOUT", err)
		}
		if _, err := c.UnaryCall(ctx, &request{}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("of a context that is done already: %v", err)
		}
	})
}

func TestUnaryPanicIsAnError(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := testgrpc.NewTestServiceClient(connect(&service{UnaryFn: func(context.Context, *request) (*response, error) { panic("boom") }}))
		for _, ctx := range []context.Context{t.Context(), context.Background()} {
			_, err := c.UnaryCall(ctx, &request{})
			if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "boom") {
				t.Errorf("err = %v", err)
			}
		}
	})
}

// Without interceptors a panic, and a handler that never returns, still end the call.
func TestUnaryBareHandlers(t *testing.T) {
	c := inproc.New(nil, nil)
	s := &service{}
	testgrpc.RegisterTestServiceServer(c, s)
	client := testgrpc.NewTestServiceClient(c)

	s.UnaryFn = func(context.Context, *request) (*response, error) { panic("boom") }
	for _, ctx := range []context.Context{t.Context(), context.Background()} {
		if _, err := client.UnaryCall(ctx, &request{}); status.Code(err) != codes.Internal {
			t.Errorf("panic: %v", err)
		}
	}
	s.UnaryFn = func(context.Context, *request) (*response, error) { runtime.Goexit(); return nil, nil }
	if _, err := client.UnaryCall(t.Context(), &request{}); status.Code(err) != codes.Internal {
		t.Errorf("Goexit: %v", err)
	}
	s.UnaryFn = func(context.Context, *request) (*response, error) { return nil, nil }
	if _, err := client.UnaryCall(t.Context(), &request{}); status.Code(err) != codes.Internal {
		t.Errorf("neither response nor error: %v", err)
	}
	s.UnaryFn = func(context.Context, *request) (*response, error) { return nil, io.ErrUnexpectedEOF }
	if _, err := client.UnaryCall(t.Context(), &request{}); status.Code(err) != codes.Unknown {
		t.Errorf("an untyped error: %v", err)
	}
	s.UnaryFn = nil
	if _, err := client.UnaryCall(t.Context(), &request{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("unimplemented: %v", err)
	}
}

func TestUnknownServicesAndMethods(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := connect(&service{})
		for _, name := range []string{"/no.Service/M", "/grpc.testing.TestService/Nope", "/grpc.testing.TestService/FullDuplexCall/x"} {
			if err := c.Invoke(t.Context(), name, &request{}, &response{}); status.Code(err) != codes.Unimplemented {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestRegisterServiceTwice(t *testing.T) {
	c := inproc.New(nil, nil)
	testgrpc.RegisterTestServiceServer(c, &service{})
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	testgrpc.RegisterTestServiceServer(c, &service{})
}

func TestValidationAndSizeHoldOnBoth(t *testing.T) {
	onBoth(t, serve.Options{MaxRecvBytes: 1000}, func(t *testing.T, connect connect) {
		c := testgrpc.NewTestServiceClient(connect(&service{UnaryFn: func(context.Context, *request) (*response, error) { return &response{}, nil }}))
		for _, size := range []int{2000, 100_000} {
			_, err := c.UnaryCall(t.Context(), &request{Payload: payload(strings.Repeat("x", size))})
			if e := errs.From(err); e == nil || e.Reason != commonv1.ErrorReason_ERROR_REASON_TOO_LARGE || !strings.Contains(e.Message, "bytes") {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	})
}

func TestWithToken(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	token := keys.Ephemeral("executor", []identity.Role{identity.RoleService})
	var seen identity.Principal
	c := direct(t, &service{UnaryFn: func(ctx context.Context, _ *request) (r *response, err error) {
		seen, err = identity.FromContext(ctx)
		return &response{}, err
	}}, serve.Options{Auth: keys})
	if _, err := testgrpc.NewTestServiceClient(c).UnaryCall(t.Context(), &request{}); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED {
		t.Errorf("without token: %v", err)
	}
	view := testgrpc.NewTestServiceClient(c.WithToken(token))
	if _, err := view.UnaryCall(identity.OnBehalfOf(t.Context(), "alice"), &request{}); err != nil || seen.Sub != "alice" || !seen.OnBehalf {
		t.Errorf("with token: %v, %v", seen, err)
	}
}

// Sides that know a message by different Go types understand each other, as on a network.
func TestDynamicMessages(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := connect(&service{UnaryFn: func(_ context.Context, in *request) (*response, error) {
			return &response{Payload: in.Payload, Username: "u"}, nil
		}})
		in := dynamicpb.NewMessage((&request{}).ProtoReflect().Descriptor())
		body := payload("hello").ProtoReflect()
		in.Set(in.Descriptor().Fields().ByName("payload"), protoreflect.ValueOfMessage(body))
		out := dynamicpb.NewMessage((&response{}).ProtoReflect().Descriptor())
		if err := c.Invoke(t.Context(), testgrpc.TestService_UnaryCall_FullMethodName, in, out); err != nil {
			t.Fatal(err)
		}
		want := &response{Payload: payload("hello"), Username: "u"}
		if !proto.Equal(want, out) {
			t.Errorf("out = %v", out)
		}
	})
}

// The reply of a handler that shares is handed over as it is, into a message of the client's own.
func TestSharedReply(t *testing.T) {
	sent := &response{Payload: &testgrpc.Payload{Body: []byte("x")}}
	conn := inproc.New(nil, nil)
	share := true
	testgrpc.RegisterTestServiceServer(conn, &service{UnaryFn: func(ctx context.Context, _ *request) (*response, error) {
		if share {
			inproc.Share(ctx)
		}
		return sent, nil
	}})
	for _, share = range []bool{true, false} {
		got, err := testgrpc.NewTestServiceClient(conn).UnaryCall(t.Context(), &request{})
		if err != nil || !proto.Equal(got, sent) || got == sent {
			t.Fatalf("received %v, %v", got, err)
		}
		if shared := got.GetPayload() == sent.GetPayload(); shared != share {
			t.Errorf("shared: %v, want %v", shared, share)
		}
	}
}
