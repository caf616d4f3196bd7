package grpctest_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

type whoami struct {
	testgrpc.UnimplementedTestServiceServer
}

func (whoami) UnaryCall(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	p, err := identity.FromContext(ctx)
	return &testgrpc.SimpleResponse{Username: p.Sub}, err
}

func register(r grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(r, whoami{}) }

func ask(t *testing.T, conn *grpc.ClientConn) (string, error) {
	r, err := testgrpc.NewTestServiceClient(conn).UnaryCall(t.Context(), &testgrpc.SimpleRequest{})
	return r.GetUsername(), err
}

func TestServe(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("local", func(t *testing.T) {
		if sub, err := ask(t, grpctest.Serve(t, register, serve.Options{})); err != nil || sub != "local" {
			t.Errorf("sub = %q, %v", sub, err)
		}
	})
	t.Run("keys", func(t *testing.T) {
		keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
		if err != nil {
			t.Fatal(err)
		}
		alice := keys.Ephemeral("alice", []identity.Role{identity.RoleUser})
		dial := grpctest.Server(t, register, serve.Options{Auth: keys})
		if sub, err := ask(t, dial(alice)); err != nil || sub != "alice" {
			t.Errorf("sub = %q, %v", sub, err)
		}
		if _, err := ask(t, dial("")); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED {
			t.Errorf("without a key: %v", err)
		}
		if sub, err := ask(t, grpctest.Server(t, register, serve.Options{Auth: keys})(alice)); err != nil || sub != "alice" {
			t.Errorf("sub = %q, %v", sub, err)
		}
	})
}
