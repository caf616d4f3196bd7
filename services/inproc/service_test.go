package inproc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

// service is a TestService of functions; those that are nil are unimplemented.
type service struct {
	testgrpc.UnimplementedTestServiceServer
	UnaryFn  func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error)
	OutFn    func(*testgrpc.StreamingOutputCallRequest, testgrpc.TestService_StreamingOutputCallServer) error
	DuplexFn func(testgrpc.TestService_FullDuplexCallServer) error
}

func (s *service) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if s.UnaryFn == nil {
		return s.UnimplementedTestServiceServer.UnaryCall(ctx, in)
	}
	return s.UnaryFn(ctx, in)
}

func (s *service) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, ss testgrpc.TestService_StreamingOutputCallServer) error {
	return s.OutFn(in, ss)
}

func (s *service) FullDuplexCall(ss testgrpc.TestService_FullDuplexCallServer) error {
	return s.DuplexFn(ss)
}

// onBoth runs a test over a network in memory and over direct calls: what holds for one has to hold for the other.
func onBoth(t *testing.T, o serve.Options, test func(t *testing.T, connect func(*service) grpc.ClientConnInterface)) {
	if o.Auth == nil {
		o.Auth, o.Local = identity.Local(), true
	}
	t.Run("grpc", func(t *testing.T) {
		test(t, func(s *service) grpc.ClientConnInterface {
			return grpctest.Serve(t, func(r grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(r, s) }, o)
		})
	})
	t.Run("inproc", func(t *testing.T) {
		test(t, func(s *service) grpc.ClientConnInterface { return direct(t, s, o) })
	})
}

func direct(t testing.TB, s *service, o serve.Options) *inproc.Conn {
	t.Helper()
	unary, stream, err := serve.Interceptors(o)
	if err != nil {
		t.Fatal(err)
	}
	c := inproc.New(unary, stream)
	testgrpc.RegisterTestServiceServer(c, s)
	return c
}
