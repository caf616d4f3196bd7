package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// endlessService sends without end, and reports the error of the Send that fails.
type endlessService struct {
	testgrpc.UnimplementedTestServiceServer
	failed chan error
}

func (s endlessService) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, ss grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	for {
		if err := ss.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, 32<<10)}}); err != nil {
			s.failed <- err
			return err
		}
	}
}

// A stream that its client does not read is ended, and with it the handler's Send; the client gets what was sent before, and then the reason. A client
// that reads slowly keeps its stream.
func TestUnreadStreamEnds(t *testing.T) {
	server, err := New(Options{Auth: identity.Local(), Local: true, Limits: Limits{WriteTime: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	service := endlessService{failed: make(chan error, 1)}
	testgrpc.RegisterTestServiceServer(server, service)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(t.Context(), lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(t.Context(), &testgrpc.StreamingOutputCallRequest{})
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 25 { // five times the timeout
		<-tick.C
		for range 4 {
			if _, err := stream.Recv(); err != nil {
				t.Fatalf("a slow client: %v", err)
			}
		}
	}
	if err := <-service.failed; err == nil { // nothing is read meanwhile
		t.Error("Send went on")
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if e := errs.From(err); errors.Is(err, io.EOF) || e.Code != codes.Unavailable || e.Reason != commonv1.ErrorReason_ERROR_REASON_TIMEOUT {
		t.Errorf("the client gets %v", err)
	}
}

// largeService sends a small message and a large one.
type largeService struct {
	testgrpc.UnimplementedTestServiceServer
	sent chan error // the result of sending the large one
}

func (s largeService) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, ss grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	if err := ss.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
		return err
	}
	err := ss.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, 3<<20)}})
	s.sent <- err
	return err
}

// Issue 13: a large message of a stream is sent only when the client has taken it, so that its memory counts until then.
func TestLargeMessagesAreAwaited(t *testing.T) {
	server, err := New(Options{Auth: identity.Local(), Local: true})
	if err != nil {
		t.Fatal(err)
	}
	service := largeService{sent: make(chan error, 2)}
	testgrpc.RegisterTestServiceServer(server, service)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(t.Context(), lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, reads := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-service.sent:
			t.Errorf("the message counts as sent before the client has read it: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		if reads {
			if m, err := stream.Recv(); err != nil || len(m.GetPayload().GetBody()) != 3<<20 {
				t.Errorf("%d bytes, %v", len(m.GetPayload().GetBody()), err)
			}
		} else {
			cancel()
		}
		if err := <-service.sent; (err == nil) != reads {
			t.Errorf("the client reads: %v; Send returned %v", reads, err)
		}
		cancel()
	}
}
