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

// transport is the transport of an endless stream.
type transport struct {
	grpc.ServerTransportStream
	end func()
}

func (t transport) WriteStatus(*status.Status) error {
	t.end()
	return nil
}

// A stream whose key is removed gets nothing more, and nothing is taken from it, however long it was open.
func TestStreamOfARemovedKeyEnds(t *testing.T) {
	t.Run("sending", func(t *testing.T) { removedKey(t, func(ss grpc.ServerStream) error { return ss.SendMsg(nil) }) })
	t.Run("receiving", func(t *testing.T) { removedKey(t, func(ss grpc.ServerStream) error { return ss.RecvMsg(nil) }) })
}

// A stream that is idle ends too, within 5 s.
func TestIdleStreamOfARemovedKeyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, ctx, id := keyOf(t, "ann")
		_, stream, err := serve.Interceptors(serve.Options{Auth: keys})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		ctx = grpc.NewContextWithServerTransportStream(ctx, transport{end: cancel})
		ended := make(chan error, 1)
		go func() {
			ended <- stream(nil, endless{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/x/Watch", IsServerStream: true}, func(_ any, ss grpc.ServerStream) error {
				<-ss.Context().Done()
				return ss.Context().Err()
			})
		}()
		<-time.After(time.Minute) // virtual
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatalf("it ended with the key: %v", <-ended)
		}
		if err := keys.Remove(id); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := <-ended; status.Code(err) != codes.Unauthenticated || time.Since(begin) > 5*time.Second {
			t.Errorf("ended %s after the key was removed: %v; want Unauthenticated within 5 s", time.Since(begin), err)
		}
	})
}

// keyOf returns a key file with one user's key, a call's context with the key, and the key's id.
func keyOf(t *testing.T, sub string) (keys *identity.KeyFile, ctx context.Context, id string) {
	t.Helper()
	keys, err := identity.OpenKeyFile(filepath.Join(t.TempDir(), "keys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	token, key, err := keys.Add(identity.Key{Sub: sub, Roles: []identity.Role{identity.RoleUser}})
	if err != nil {
		t.Fatal(err)
	}
	return keys, metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", identity.BearerHeader(token))), key.ID
}

func removedKey(t *testing.T, do func(grpc.ServerStream) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		keys, ctx, id := keyOf(t, "ann")
		_, stream, err := serve.Interceptors(serve.Options{Auth: keys})
		if err != nil {
			t.Fatal(err)
		}
		err = stream(nil, endless{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/x/Watch"}, func(_ any, ss grpc.ServerStream) error {
			<-time.After(time.Minute) // virtual
			if err := do(ss); err != nil {
				t.Errorf("with the key: %v", err)
			}
			if err := keys.Remove(id); err != nil {
				t.Error(err)
			}
			<-time.After(2 * time.Second)
			return do(ss)
		})
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("after its key was removed: %v, want Unauthenticated", err)
		}
	})
}
