package inproc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	outRequest  = testgrpc.StreamingOutputCallRequest
	outResponse = testgrpc.StreamingOutputCallResponse
	outStream   = testgrpc.TestService_StreamingOutputCallServer
)

func out(text string) *outResponse { return &outResponse{Payload: payload(text)} }

// drain receives until the end.
func drain(s interface{ Recv() (*outResponse, error) }) (texts []string, err error) {
	for {
		m, err := s.Recv()
		if err != nil {
			return texts, err
		}
		texts = append(texts, string(m.Payload.Body))
	}
}

func TestServerStream(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := testgrpc.NewTestServiceClient(connect(&service{OutFn: func(in *outRequest, ss outStream) error {
			if err := ss.SetHeader(metadata.Pairs("h", "1")); err != nil {
				return err
			}
			reused := out("")
			for i := range 50 {
				reused.Payload.Body = fmt.Append(reused.Payload.Body[:0], string(in.Payload.Body), i)
				if err := ss.Send(reused); err != nil {
					return err
				}
			}
			if ss.SetHeader(metadata.Pairs("late", "1")) == nil || ss.SendHeader(nil) == nil {
				t.Error("a header after the first message was accepted")
			}
			return nil
		}}))
		s, err := c.StreamingOutputCall(t.Context(), &outRequest{Payload: payload("n")})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := s.Header(); err != nil || h.Get("h") == nil {
			t.Errorf("header = %v, %v", h, err)
		}
		texts, err := drain(s)
		if !errors.Is(err, io.EOF) || len(texts) != 50 || texts[0] != "n0" || texts[49] != "n49" {
			t.Errorf("received %v, %v", texts, err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// Issue 13: a handler knows when the client has finished with what was sent. Over a network, Flush does nothing.
func TestFlush(t *testing.T) {
	flushed := make(chan error, 2)
	s := &service{OutFn: func(_ *outRequest, ss outStream) error {
		if err := ss.Send(out("large")); err != nil {
			return err
		}
		flushed <- inproc.Flush(ss.Context())
		return ss.Send(out("next"))
	}}
	onBoth(t, serve.Options{}, func(t *testing.T, connect func(*service) grpc.ClientConnInterface) {
		conn := connect(s)
		stream, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(t.Context(), &outRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, direct := conn.(*inproc.Conn); direct && len(flushed) > 0 {
			t.Error("Flush returned before the client asked for the next message")
		}
		if texts, err := drain(stream); !errors.Is(err, io.EOF) || !cmp.Equal(texts, []string{"next"}) {
			t.Error(texts, err)
		}
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if stream, err = testgrpc.NewTestServiceClient(conn).StreamingOutputCall(ctx, &outRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, direct := conn.(*inproc.Conn); direct {
			if err := <-flushed; status.Code(err) != codes.Canceled {
				t.Errorf("Flush of a cancelled call: %v", err)
			}
		} else {
			<-flushed
		}
	})
}

func TestStreamHeaderComesBeforeTheFirstMessage(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		for name, send := range map[string]func(outStream) error{
			"a header":        func(ss outStream) error { return ss.SendHeader(metadata.Pairs("h", "1")) },
			"an empty header": func(ss outStream) error { return ss.SendHeader(nil) },
			"by the context":  func(ss outStream) error { return grpc.SendHeader(ss.Context(), metadata.Pairs("h", "1")) },
			"set, not yet sent": func(ss outStream) error {
				return errors.Join(grpc.SetHeader(ss.Context(), metadata.Pairs("h", "1")), ss.SendHeader(nil))
			},
		} {
			t.Run(name, func(t *testing.T) {
				release := make(chan struct{})
				c := testgrpc.NewTestServiceClient(connect(&service{OutFn: func(_ *outRequest, ss outStream) error {
					if err := send(ss); err != nil {
						return err
					}
					<-release
					return ss.Send(out("x"))
				}}))
				s, err := c.StreamingOutputCall(t.Context(), &outRequest{})
				if err != nil {
					t.Fatal(err)
				}
				h, err := s.Header() // would hang if it waited for a message
				close(release)
				if err != nil || name != "an empty header" && h.Get("h") == nil {
					t.Errorf("header = %v, %v", h, err)
				}
				if texts, err := drain(s); !errors.Is(err, io.EOF) || len(texts) != 1 {
					t.Errorf("received %v, %v", texts, err)
				}
			})
		}
	})
}

func TestStreamErrorComesAfterItsMessages(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := testgrpc.NewTestServiceClient(connect(&service{OutFn: func(_ *outRequest, ss outStream) error {
			return errors.Join(ss.Send(out("a")), ss.Send(out("b")),
				errs.New(codes.Aborted, commonv1.ErrorReason_ERROR_REASON_CONFLICT, "no").With("k", "v"))
		}}))
		s, err := c.StreamingOutputCall(t.Context(), &outRequest{})
		if err != nil {
			t.Fatal(err)
		}
		texts, err := drain(s)
		if e := errs.From(err); len(texts) != 2 || e.Reason != commonv1.ErrorReason_ERROR_REASON_CONFLICT || e.Metadata["k"] != "v" {
			t.Errorf("received %v, %v", texts, err)
		}
		if _, again := s.Recv(); status.Code(again) != codes.Aborted {
			t.Errorf("the error again: %v", again)
		}
	})
}

// A handler that answers before it has received everything: the sender learns it by io.EOF, the receiver why.
func TestStreamRefusedEarly(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := testgrpc.NewTestServiceClient(connect(&service{DuplexFn: func(testgrpc.TestService_FullDuplexCallServer) error {
			return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED, "enough")
		}}))
		s, err := c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = s.Send(&outRequest{Payload: payload("x")})
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("Send = %v, want io.EOF", err)
		}
		if _, err := s.Recv(); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TASK_ENDED {
			t.Errorf("Recv = %v", err)
		}
	})
}

// No service streams requests alone.
func TestClientStreamIsRefused(t *testing.T) {
	if _, err := testgrpc.NewTestServiceClient(direct(t, &service{}, serve.Options{Auth: identity.Local()})).StreamingInputCall(t.Context()); status.Code(err) != codes.Unimplemented {
		t.Errorf("err = %v", err)
	}
}

func TestDuplex(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := testgrpc.NewTestServiceClient(connect(&service{DuplexFn: func(ss testgrpc.TestService_FullDuplexCallServer) error {
			for {
				m, err := ss.Recv()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := ss.Send(&outResponse{Payload: m.Payload}); err != nil {
					return err
				}
			}
		}}))
		s, err := c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			text := fmt.Sprint("ping ", i)
			if err := s.Send(&outRequest{Payload: payload(text)}); err != nil {
				t.Fatal(err)
			}
			m, err := s.Recv()
			if err != nil || string(m.Payload.Body) != text {
				t.Fatalf("Recv = %v, %v", m, err)
			}
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("Recv = %v, want io.EOF", err)
		}
		if err := s.Send(&outRequest{}); err == nil {
			t.Error("Send after CloseSend was accepted")
		}
	})
}

// A client that goes away without receiving frees the handler, wherever it is.
func TestAbandonedStreams(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		flood := func(_ *outRequest, ss outStream) error {
			for {
				if err := ss.Send(out(strings.Repeat("x", 10_000))); err != nil {
					return err
				}
			}
		}
		wait := func(_ *outRequest, ss outStream) error {
			<-ss.Context().Done()
			return ss.Context().Err()
		}
		for name, handler := range map[string]func(*outRequest, outStream) error{"sending": flood, "waiting": wait} {
			t.Run(name, func(t *testing.T) {
				entered, left := make(chan struct{}), make(chan error, 1)
				c := testgrpc.NewTestServiceClient(connect(&service{OutFn: func(in *outRequest, ss outStream) error {
					close(entered)
					err := handler(in, ss)
					left <- err
					return err
				}}))
				ctx, cancel := context.WithCancel(t.Context())
				s, err := c.StreamingOutputCall(ctx, &outRequest{})
				if err != nil {
					t.Fatal(err)
				}
				<-entered
				cancel()
				if err := <-left; errs.From(err).Code != codes.Canceled {
					t.Errorf("the handler ended with %v", err)
				}
				if _, err := drain(s); status.Code(err) != codes.Canceled {
					t.Errorf("Recv = %v", err)
				}
			})
		}
		t.Run("receiving", func(t *testing.T) {
			entered, left := make(chan struct{}), make(chan error, 1)
			c := testgrpc.NewTestServiceClient(connect(&service{DuplexFn: func(ss testgrpc.TestService_FullDuplexCallServer) error {
				close(entered)
				_, err := ss.Recv()
				left <- err
				return err
			}}))
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := c.FullDuplexCall(ctx); err != nil {
				t.Fatal(err)
			}
			<-entered
			cancel()
			if err := <-left; status.Code(err) != codes.Canceled {
				t.Errorf("the handler's Recv = %v", err)
			}
		})
	})
}

func TestStreamContextDoneBeforeItBegins(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := testgrpc.NewTestServiceClient(connect(&service{}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.FullDuplexCall(ctx); status.Code(err) != codes.Canceled {
			t.Errorf("err = %v", err)
		}
	})
}

func TestStreamPanicIsAnError(t *testing.T) {
	onBoth(t, serve.Options{}, func(t *testing.T, connect connect) {
		c := testgrpc.NewTestServiceClient(connect(&service{OutFn: func(*outRequest, outStream) error { panic("boom") }}))
		s, err := c.StreamingOutputCall(t.Context(), &outRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "boom") {
			t.Errorf("err = %v", err)
		}
	})
	for name, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		bare := inproc.New(nil, nil)
		testgrpc.RegisterTestServiceServer(bare, &service{OutFn: func(*outRequest, outStream) error { leave(); return nil }})
		s, err := testgrpc.NewTestServiceClient(bare).StreamingOutputCall(t.Context(), &outRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.Internal {
			t.Errorf("without interceptors, %s: %v", name, err)
		}
	}
}

// Interceptors see streams, and their refusals reach the client through Recv.
func TestStreamIdentity(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := direct(t, &service{OutFn: func(_ *outRequest, ss outStream) error {
		p, err := identity.FromContext(ss.Context())
		return errors.Join(err, ss.Send(out(p.Sub)))
	}}, serve.Options{Auth: keys})
	view := c.WithToken(keys.Ephemeral("svc", []identity.Role{identity.RoleService}))
	s, err := testgrpc.NewTestServiceClient(view).StreamingOutputCall(identity.OnBehalfOf(t.Context(), "alice"), &outRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if texts, err := drain(s); !errors.Is(err, io.EOF) || !cmp.Equal(texts, []string{"alice"}) {
		t.Errorf("received %v, %v", texts, err)
	}
	s, err = testgrpc.NewTestServiceClient(c).StreamingOutputCall(t.Context(), &outRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED {
		t.Errorf("without token: %v", err)
	}
}

// A message that a handler shares reaches each client unchanged, and a client that changes its message changes no other client's.
func TestSharedMessages(t *testing.T) {
	sent := out("shared")
	conn := inproc.New(nil, nil)
	testgrpc.RegisterTestServiceServer(conn, &service{OutFn: func(_ *outRequest, ss outStream) error {
		inproc.Share(ss.Context())
		return ss.Send(sent)
	}})
	for range 2 {
		stream, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(t.Context(), &outRequest{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil || !proto.Equal(got, out("shared")) {
			t.Fatalf("received %v, %v", got, err)
		}
		if got.GetPayload() != sent.GetPayload() {
			t.Error("the contents of the message were copied")
		}
		got.Payload = nil // its own
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
	}
	// A client with another type for the message has a copy.
	desc := sent.ProtoReflect().Descriptor()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, testgrpc.TestService_StreamingOutputCall_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(&outRequest{}), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	dynamic := dynamicpb.NewMessage(desc)
	if err := stream.RecvMsg(dynamic); err != nil || !proto.Equal(dynamic, sent) {
		t.Errorf("a dynamic message: %v, %v", dynamic, err)
	}
}

// Requests are shared if both sides allow it, and copied otherwise.
func TestSharedRequests(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler bool
		options []grpc.CallOption
		unknown []byte
		shared  bool
	}{
		{"both", true, []grpc.CallOption{inproc.Sharing()}, nil, true},
		{"both, a message of a newer version", true, []grpc.CallOption{inproc.Sharing()}, []byte{0x98, 0x06, 0x01}, false},
		{"the handler alone", true, nil, nil, false},
		{"the client alone", false, []grpc.CallOption{inproc.Sharing()}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := make(chan *outRequest)
			conn := inproc.New(nil, nil)
			testgrpc.RegisterTestServiceServer(conn, &service{DuplexFn: func(ss testgrpc.TestService_FullDuplexCallServer) error {
				if c.handler {
					inproc.Share(ss.Context())
				}
				if err := ss.Send(out("ready")); err != nil {
					return err
				}
				req, err := ss.Recv()
				got <- req
				return err
			}})
			stream, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(t.Context(), c.options...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			sent := &outRequest{Payload: &testgrpc.Payload{Body: []byte("x")}}
			sent.ProtoReflect().SetUnknown(c.unknown)
			if err := stream.Send(sent); err != nil {
				t.Fatal(err)
			}
			req := <-got
			if !proto.Equal(req, sent) {
				t.Errorf("received %v, want %v", req, sent)
			}
			if shared := req.GetPayload() == sent.GetPayload(); shared != c.shared || req == sent {
				t.Errorf("shared: %v, want %v; the same message: %v", shared, c.shared, req == sent)
			}
		})
	}
}

// Receiving into a message replaces all that it had, unknown fields too.
func TestSharedMessageReplaces(t *testing.T) {
	conn := inproc.New(nil, nil)
	testgrpc.RegisterTestServiceServer(conn, &service{OutFn: func(_ *outRequest, ss outStream) error {
		inproc.Share(ss.Context())
		return errors.Join(ss.Send(out("one")), ss.Send(&testgrpc.StreamingOutputCallResponse{}))
	}})
	stream, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(t.Context(), &outRequest{})
	if err != nil {
		t.Fatal(err)
	}
	m := out("before")
	m.ProtoReflect().SetUnknown([]byte{0x98, 0x06, 0x01})
	for _, want := range []*testgrpc.StreamingOutputCallResponse{out("one"), {}} {
		if err := stream.RecvMsg(m); err != nil || !proto.Equal(m, want) {
			t.Errorf("received %v, %v, want %v", m, err, want)
		}
	}
}

// When its key is removed, a stream ends: whether its handler waits for a message, for the client to read, or for something else.
func TestStreamOfARemovedKeyEnds(t *testing.T) {
	keys, err := identity.OpenKeyFile(filepath.Join(t.TempDir(), "keys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	onBoth(t, serve.Options{Auth: keys}, func(t *testing.T, connect func(*service) grpc.ClientConnInterface) {
		token, key, err := keys.Add(identity.Key{Sub: "ann", Roles: []identity.Role{identity.RoleUser}})
		if err != nil {
			t.Fatal(err)
		}
		begun, ended := make(chan struct{}), make(chan error)
		wait := func(handler func() error) error {
			begun <- struct{}{}
			err := handler()
			ended <- err
			return err
		}
		client := testgrpc.NewTestServiceClient(connect(&service{
			OutFn: func(in *testgrpc.StreamingOutputCallRequest, ss testgrpc.TestService_StreamingOutputCallServer) error {
				return wait(func() error {
					for len(in.GetResponseParameters()) > 0 {
						if err := ss.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, 64<<10)}}); err != nil {
							return err
						}
					}
					<-ss.Context().Done()
					return ss.Context().Err()
				})
			},
			DuplexFn: func(ss testgrpc.TestService_FullDuplexCallServer) error {
				return wait(func() error {
					_, err := ss.Recv()
					return err
				})
			},
		}))
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", identity.BearerHeader(token))
		idle, err := client.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		unread, err := client.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{}}})
		if err != nil {
			t.Fatal(err)
		}
		duplex, err := client.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			<-begun
		}
		if err := keys.Remove(key.ID); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := <-ended; err == nil {
				t.Error("a handler ended without an error")
			}
		}
		for name, stream := range map[string]interface{ RecvMsg(any) error }{"idle": idle, "unread": unread, "duplex": duplex} {
			var err error
			for err == nil {
				err = stream.RecvMsg(&testgrpc.StreamingOutputCallResponse{})
			}
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: %v, want Unauthenticated", name, err)
			}
		}
	})
}
