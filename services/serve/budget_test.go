package serve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "pawl.dev/proto/gen/pawl/executor/v1"
	_ "pawl.dev/proto/gen/pawl/mcppool/v1"
	_ "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// Issue 13: one user gets at most half of a budget, waits for more, and leaves the rest to others.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serve.NewBudget("test", 100)
		hold := func(user string, bytes int64) *serve.Holding {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			held, _ := b.Acquire(ctx, user, bytes)
			return held
		}
		large := hold("ann", 1000)
		if large == nil {
			t.Fatal("one message larger than the share does not get through")
		}
		if hold("ann", 1) != nil || b.TryAcquire("ann", 1) != nil {
			t.Error("ann got more than her share")
		}
		bob := hold("bob", 50)
		if bob == nil {
			t.Fatal("bob did not get his share")
		}
		if hold("cas", 1) != nil || b.TryAcquire("cas", 1) != nil {
			t.Error("more than the budget was given away")
		}
		bob.Release()
		bob.Release() // no more than once
		if cas := hold("cas", 50); cas == nil {
			t.Error("released bytes were not given to another user")
		}
		if hold("bob", 1) != nil {
			t.Error("a second release freed bytes")
		}
		large.Release()
		ann := hold("ann", 50)
		if ann == nil {
			t.Fatal("ann does not get her share again")
		}
		ann.Shrink(20)
		if hold("", 100) != nil {
			t.Error("more than the budget was given away")
		}
		if b.TryAcquire("ann", 30) == nil {
			t.Error("shrinking freed nothing")
		}
	})
}

// Issue 13: only methods that need it take requests of more than 1 MiB.
func TestMaxRequest(t *testing.T) {
	for method, want := range map[protoreflect.FullName]int{
		"pawl.executor.v1.ExecutorService.CreateTask": 1 << 20, "pawl.executor.v1.ExecutorService.ResumeTask": 2 << 20,
		"pawl.mcppool.v1.McpPoolService.CallTools": 4<<20 + 256<<10, "pawl.planner.v1.PlannerService.PlanSteps": 17 << 20,
	} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(method)
		if err != nil {
			t.Fatal(err)
		}
		if got := serve.MaxRequest(d.(protoreflect.MethodDescriptor)); got != want {
			t.Errorf("%s: %d, want %d", method, got, want)
		}
	}
}

// A user's request over the limit of its method is refused, and a service's is not.
func TestRequestsOfUsersAreBounded(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dial := grpctest.Server(t, (&service{UnaryFn: func(context.Context) error { return nil }}).register, serve.Options{Auth: keys})
	for role, want := range map[identity.Role]codes.Code{identity.RoleUser: codes.ResourceExhausted, identity.RoleService: codes.OK} {
		conn := dial(keys.Ephemeral("x", []identity.Role{role}))
		_, err := testgrpc.NewTestServiceClient(conn).UnaryCall(t.Context(), &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: make([]byte, 1<<20)}})
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %v", role, err, want)
		}
	}
}

// A user's calls that wait are bounded too, because what has arrived of their requests is held.
func TestCallsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serve.NewBudget("test", 64<<10) // two calls of a user
		begun := time.Now()
		reserve := func() time.Duration {
			_, err := b.Reserve(t.Context(), "ann", 32<<10)
			if err != nil && errs.ReasonName(errs.Reason(err)) != "RATE_LIMITED" {
				t.Error(err)
			}
			return time.Since(begun)
		}
		reserve()
		go reserve() // waits
		synctest.Wait()
		if took := reserve(); took != 0 {
			t.Errorf("one more waited %v", took)
		}
		if _, err := b.Reserve(t.Context(), "bob", 32<<10); err != nil {
			t.Errorf("another user: %v", err)
		}
	})
}
