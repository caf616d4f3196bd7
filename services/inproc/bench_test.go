package inproc_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

// The same calls over direct calls, without and with the interceptors, and over bufconn with them.
func connections(b *testing.B, s *service) map[string]grpc.ClientConnInterface {
	o := serve.Options{Auth: identity.Local(), Local: true}
	bare := inproc.New(nil, nil)
	testgrpc.RegisterTestServiceServer(bare, s)
	return map[string]grpc.ClientConnInterface{
		"inproc-bare": bare,
		"inproc":      direct(b, s, o),
		"bufconn":     grpctest.Serve(b, func(r grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(r, s) }, o),
	}
}

func BenchmarkUnary(b *testing.B) {
	s := &service{UnaryFn: func(_ context.Context, in *request) (*response, error) {
		return &response{Payload: in.Payload, Username: "someone"}, nil
	}}
	in := &request{Payload: &testgrpc.Payload{Body: make([]byte, 300)}, FillUsername: true}
	for name, conn := range connections(b, s) {
		c := testgrpc.NewTestServiceClient(conn)
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.UnaryCall(ctx, in); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"-parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				for pb.Next() {
					if _, err := c.UnaryCall(ctx, in); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// One call with ten messages, about as many as a tool call with progress sends.
func BenchmarkServerStream(b *testing.B) {
	s := &service{OutFn: func(_ *outRequest, ss outStream) error {
		for range 10 {
			if err := ss.Send(out("a few words of progress")); err != nil {
				return err
			}
		}
		return nil
	}}
	for name, conn := range connections(b, s) {
		c := testgrpc.NewTestServiceClient(conn)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				stream, err := c.StreamingOutputCall(b.Context(), &outRequest{})
				if err != nil {
					b.Fatal(err)
				}
				if texts, err := drain(stream); !errors.Is(err, io.EOF) || len(texts) != 10 {
					b.Fatal(texts, err)
				}
			}
		})
	}
}
