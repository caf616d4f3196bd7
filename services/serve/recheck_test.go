package serve_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// endless is a server stream that takes everything.
type endless struct {
	grpc.ServerStream
	ctx context.Context
}

func (e endless) Context() context.Context { return e.ctx }
func (e endless) SendMsg(any) error        { return nil }
func (e endless) RecvMsg(any) error        { return nil }

// A stream whose key is removed gets nothing more, and nothing is taken from it, however long it was open.
func TestStreamOfARemovedKeyEnds(t *testing.T) {
	t.Run("sending", func(t *testing.T) { removedKey(t, func(ss grpc.ServerStream) error { return ss.SendMsg(nil) }) })
	t.Run("receiving", func(t *testing.T) { removedKey(t, func(ss grpc.ServerStream) error { return ss.RecvMsg(nil) }) })
}

func removedKey(t *testing.T, do func(grpc.ServerStream) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		keys, err := identity.OpenKeyFile(filepath.Join(t.TempDir(), "keys.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		token, key, err := keys.Add(identity.Key{Sub: "ann", Roles: []identity.Role{identity.RoleUser}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", identity.BearerHeader(token)))
		_, stream, err := serve.Interceptors(serve.Options{Auth: keys})
		if err != nil {
			t.Fatal(err)
		}
		err = stream(nil, endless{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/x/Watch"}, func(_ any, ss grpc.ServerStream) error {
			time.Sleep(time.Minute) // virtual
			if err := do(ss); err != nil {
				t.Errorf("with the key: %v", err)
			}
			if err := keys.Remove(key.ID); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Second)
			return do(ss)
		})
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("after its key was removed: %v, want Unauthenticated", err)
		}
	})
}
