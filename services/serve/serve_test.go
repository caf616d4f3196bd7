package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

type service struct {
	testgrpc.UnimplementedTestServiceServer
	UnaryFn func(context.Context) error
	OutFn   func(context.Context) error
}

func (s *service) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return &testgrpc.SimpleResponse{Payload: in.Payload}, s.UnaryFn(ctx)
}

func (s *service) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, ss testgrpc.TestService_StreamingOutputCallServer) error {
	return s.OutFn(ss.Context())
}

func (s *service) register(r grpc.ServiceRegistrar) { testgrpc.RegisterTestServiceServer(r, s) }

// buffer is a log that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func logTo(b io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]serve.Options{
		"no Auth":       {},
		"negative size": {Auth: identity.Local(), MaxRecvBytes: -1},
	} {
		if _, err := serve.New(o); err == nil {
			t.Errorf("%s: New accepted it", name)
		}
		if _, _, err := serve.Interceptors(o); err == nil {
			t.Errorf("%s: Interceptors accepted it", name)
		}
	}
}

func TestPanicsAreLoggedWithTheirStack(t *testing.T) {
	var logged buffer
	s := &service{
		UnaryFn: func(context.Context) error { panic("boom unary") },
		OutFn:   func(context.Context) error { panic("boom stream") },
	}
	c := testgrpc.NewTestServiceClient(grpctest.Serve(t, s.register, serve.Options{Log: logTo(&logged)}))
	_, unary := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{})
	stream, err := c.StreamingOutputCall(t.Context(), &testgrpc.StreamingOutputCallRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, streamErr := stream.Recv()
	for _, err := range []error{unary, streamErr} {
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR || status.Code(err) != codes.Internal {
			t.Errorf("err = %v", err)
		}
		if strings.Contains(err.Error(), "serve_test.go") {
			t.Errorf("the stack went to the caller: %v", err)
		}
	}
	for _, want := range []string{"boom unary", "boom stream", "serve_test.go", "level=ERROR", "UnaryCall", "StreamingOutputCall"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, logged.String())
		}
	}
}

func TestEachCallIsLogged(t *testing.T) {
	var logged buffer
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	token := keys.Ephemeral("alice", []identity.Role{identity.RoleUser})
	result := fmt.Errorf("open the journal: %w", &fs.PathError{Op: "write", Path: "journal.db", Err: syscall.ENOSPC})
	s := &service{UnaryFn: func(context.Context) error { return result }}
	dial := grpctest.Server(t, s.register, serve.Options{Auth: keys, Log: logTo(&logged)})
	call := func(token string) string {
		before := len(logged.String())
		_, _ = testgrpc.NewTestServiceClient(dial(token)).UnaryCall(t.Context(), &testgrpc.SimpleRequest{})
		return logged.String()[before:]
	}
	want := func(line string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Errorf("the log %q lacks %q", line, part)
			}
		}
	}
	want(call(token), "level=ERROR", "msg=call", "code=Internal", "reason=UNKNOWN_ERROR", "sub=alice", "duration=", "open the journal", "UnaryCall")
	result = errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "no pool")
	want(call(token), "level=WARN", "reason=NETWORK_ERROR")
	result = nil
	want(call(token), "level=DEBUG", "code=OK", "sub=alice")
	want(call(""), "level=DEBUG", "code=Unauthenticated", "no credential")
}

// Issue 13: a call without a credential is refused before its message is read, and so before it has arrived.
func TestCredentialIsCheckedBeforeTheMessage(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{UnaryFn: func(context.Context) error { return nil }}
	conn := grpctest.Server(t, s.register, serve.Options{Auth: keys})("pawl_nobody_x")
	held, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, testgrpc.TestService_UnaryCall_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := held.RecvMsg(&testgrpc.SimpleResponse{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v; want UNAUTHENTICATED", err)
	}
}

// Issue 13: every server says who the caller is.
func TestWhoAmI(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{}
	conn := grpctest.Server(t, s.register, serve.Options{Auth: keys})(keys.Ephemeral("alice", []identity.Role{identity.RoleUser}))
	who, err := identityv1.NewIdentityServiceClient(conn).WhoAmI(t.Context(), &identityv1.WhoAmIRequest{})
	if err != nil || who.GetSub() != "alice" {
		t.Errorf("%v, %v", who, err)
	}
}

// Issue 2, shown by 6: a page that reaches loopback under a name of its own gets nowhere.
func TestLocalTakesOnlyLoopbackAuthorities(t *testing.T) {
	s := &service{UnaryFn: func(context.Context) error { return nil }, OutFn: func(context.Context) error { return nil }}
	srv, err := serve.New(serve.Options{Auth: identity.Local(), Local: true})
	if err != nil {
		t.Fatal(err)
	}
	s.register(srv)
	lis := start(t, srv)
	for authority, allowed := range map[string]bool{
		"localhost": true, "LOCALHOST:8080": true, "127.0.0.1:1": true, "127.9.9.9": true, "[::1]:5": true, "::1": true,
		"[::ffff:127.0.0.1]:5": true,
		"evil.example:8080":    false, "localhost.evil.example": false, "192.168.1.1:80": false, "0.0.0.0": false,
		"127.0.0.1.evil.example": false, "pawl.localhost": false,
	} {
		conn, err := grpc.NewClient("passthrough:///x", grpc.WithAuthority(authority), overBuffer(lis),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		c := testgrpc.NewTestServiceClient(conn)
		_, unary := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{})
		stream, err := c.StreamingOutputCall(t.Context(), &testgrpc.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, streamErr := stream.Recv()
		if allowed && (unary != nil || !errors.Is(streamErr, io.EOF)) || !allowed &&
			(errs.Reason(unary) != commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED || status.Code(streamErr) != codes.PermissionDenied) {
			t.Errorf("authority %q: unary %v, stream %v; want allowed %v", authority, unary, streamErr, allowed)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func overBuffer(lis *bufconn.Listener) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) })
}

// start serves in memory until the test ends.
func start(t *testing.T, srv *serve.Server) *bufconn.Listener {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, lis) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return lis
}

type pool struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
}

func (pool) GetMcpServer(context.Context, *mcppoolv1.GetMcpServerRequest) (*mcppoolv1.McpServer, error) {
	return &mcppoolv1.McpServer{}, nil
}

func TestMessagesAreValidated(t *testing.T) {
	c := mcppoolv1.NewMcpPoolServiceClient(grpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		mcppoolv1.RegisterMcpPoolServiceServer(r, pool{})
	}, serve.Options{}))
	_, err := c.GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{})
	e := errs.From(err)
	if e == nil || e.Reason != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST || len(e.Violations) != 1 || e.Violations[0].Field != "id" {
		t.Errorf("unary: %#v", e)
	}
	if !strings.Contains(err.Error(), "id: ") {
		t.Errorf("the message does not name the field: %v", err)
	}
	stream, err := c.CallTool(t.Context(), &mcppoolv1.CallToolRequest{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
		t.Errorf("stream: %v", err)
	}
}

func TestTooLargeMessagesNameTheLimit(t *testing.T) {
	s := &service{UnaryFn: func(context.Context) error { return nil }}
	c := testgrpc.NewTestServiceClient(grpctest.Serve(t, s.register, serve.Options{}))
	call := func(size int) error {
		_, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: make([]byte, size)}},
			grpc.MaxCallRecvMsgSize(64<<20))
		return err
	}
	if err := call(4 << 20); err != nil {
		t.Errorf("4 MiB: %v", err)
	}
	for _, size := range []int{5 << 20, 10 << 20, 30 << 20} { // beyond our limit, and beyond gRPC's
		e := errs.From(call(size))
		if e == nil || e.Reason != commonv1.ErrorReason_ERROR_REASON_TOO_LARGE || !strings.Contains(e.Message, "limit is") {
			t.Errorf("%d bytes: %v", size, e)
		}
	}
}

func TestHealthAndReflection(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := serve.New(serve.Options{Auth: keys})
	if err != nil {
		t.Fatal(err)
	}
	(&service{}).register(srv)
	lis := start(t, srv)
	conn := plain(t, lis, "")
	health := healthpb.NewHealthClient(conn)
	for _, name := range []string{"", "grpc.testing.TestService"} {
		r, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name}) // no credential
		if err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", name, r, err)
		}
	}
	if _, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "nope"}); status.Code(err) != codes.NotFound {
		t.Errorf("health of nope: %v", err)
	}
	if _, err := listServices(t, conn); status.Code(err) != codes.Unauthenticated {
		t.Errorf("reflection without a key: %v", err)
	}
	names, err := listServices(t, plain(t, lis, keys.Ephemeral("alice", []identity.Role{identity.RoleUser})))
	if err != nil || !strings.Contains(names, "grpc.testing.TestService") {
		t.Errorf("reflection: %q, %v", names, err)
	}
}

func plain(t *testing.T, lis *bufconn.Listener, token string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///localhost", overBuffer(lis), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(identity.BearerCredentials(token)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func listServices(t *testing.T, conn *grpc.ClientConn) (string, error) {
	t.Helper()
	s, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	_ = s.CloseSend()
	r, err := s.Recv()
	return r.GetListServicesResponse().String(), err
}

// A stop reports NOT_SERVING, lets running calls end, ends streams that have no end of their own, and refuses new calls.
func TestGracefulStop(t *testing.T) {
	entered, release := make(chan struct{}, 2), make(chan struct{})
	s := &service{
		UnaryFn: func(context.Context) error {
			entered <- struct{}{}
			<-release
			return nil
		},
		OutFn: func(ctx context.Context) error {
			entered <- struct{}{}
			select {
			case <-serve.Stopping(ctx):
				return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "stopping")
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	srv, err := serve.New(serve.Options{Auth: identity.Local()})
	if err != nil {
		t.Fatal(err)
	}
	s.register(srv)
	lis := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, lis) }()
	conn := plain(t, lis, "")
	c := testgrpc.NewTestServiceClient(conn)

	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("health: %v, %v", r, err)
	}
	stream, err := c.StreamingOutputCall(t.Context(), &testgrpc.StreamingOutputCallRequest{})
	if err != nil {
		t.Fatal(err)
	}
	unary := make(chan error, 1)
	go func() {
		_, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{})
		unary <- err
	}()
	<-entered
	<-entered
	cancel()
	if _, err := stream.Recv(); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN {
		t.Errorf("the stream ended with %v", err)
	}
	for err == nil { // NOT_SERVING may or may not come before the end
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Canceled {
		t.Errorf("the watch of health ended with %v", err)
	}
	close(release)
	if err := <-unary; err != nil {
		t.Errorf("the running call: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if _, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a call after the stop: %v", err)
	}
}

func TestStopHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{})
		s := &service{OutFn: func(ctx context.Context) error { // knows nothing of stopping
			close(entered)
			<-ctx.Done()
			return ctx.Err()
		}}
		srv, err := serve.New(serve.Options{Auth: identity.Local()})
		if err != nil {
			t.Fatal(err)
		}
		s.register(srv)
		lis := bufconn.Listen(1 << 20)
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ctx, lis) }()
		conn := plain(t, lis, "")
		stream, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(t.Context(), &testgrpc.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		<-entered
		start := time.Now()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve = %v", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("the stop took %v, want 10s", took)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ended with %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

func TestServeOnAClosedListener(t *testing.T) {
	srv, err := serve.New(serve.Options{Auth: identity.Local()})
	if err != nil {
		t.Fatal(err)
	}
	lis := bufconn.Listen(1)
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Serve(t.Context(), lis); err == nil {
		t.Error("no error")
	}
}

// Issue 13: users see no addresses of the installation in errors; operators, and everyone if there are no credentials, do.
func TestErrorsForPlainUsers(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lost := func(context.Context) error {
		return fmt.Errorf("ask the planner: %w", status.Error(codes.Unavailable, "transport: dial tcp 10.1.2.3:7413: refused"))
	}
	s := &service{UnaryFn: lost, OutFn: lost}
	dial := grpctest.Server(t, s.register, serve.Options{Auth: keys})
	for name, c := range map[string]struct {
		conn  *grpc.ClientConn
		shown bool
	}{
		"a user":         {dial(keys.Ephemeral("ann", []identity.Role{identity.RoleUser})), false},
		"an operator":    {dial(keys.Ephemeral("olga", []identity.Role{identity.RoleOperator})), true},
		"no credentials": {grpctest.Server(t, s.register, serve.Options{Auth: identity.Local()})(""), true},
	} {
		c1 := testgrpc.NewTestServiceClient(c.conn)
		_, unary := c1.UnaryCall(t.Context(), &testgrpc.SimpleRequest{})
		out, err := c1.StreamingOutputCall(t.Context(), &testgrpc.StreamingOutputCallRequest{})
		if err == nil {
			_, err = out.Recv()
		}
		for _, err := range []error{unary, err} {
			if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "10.1.2.3") != c.shown {
				t.Errorf("%s gets %v", name, err)
			}
		}
	}
}
