package serve_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/services/serve"
)

// fakeProcess records the order of the calls to it.
type fakeProcess struct {
	did []string
	ran chan struct{}
}

func (s *fakeProcess) Register(grpc.ServiceRegistrar) { s.did = append(s.did, "register") }

func (s *fakeProcess) Run(ctx context.Context) error {
	close(s.ran)
	<-ctx.Done()
	s.did = append(s.did, "run")
	return nil
}

func (s *fakeProcess) Close() error {
	s.did = append(s.did, "close")
	return nil
}

func TestServesUntilItIsStopped(t *testing.T) {
	addr := freeAddr(t)
	s := &fakeProcess{ran: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- serve.Run(ctx, serve.Process{Name: "test", Addr: addr, Flags: serve.Flags{LogLevel: "error"}},
			func(context.Context, *slog.Logger, *serve.Certificates) (serve.Service, error) { return s, nil })
	}()
	<-s.ran
	conn, err := serve.Dial(addr, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	res, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil || res.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", res, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("a stop that was asked for: %v", err)
	}
	if got := strings.Join(s.did, " "); got != "register run close" {
		t.Errorf("order %q", got)
	}
}

func TestStartsThatCannotWork(t *testing.T) {
	built := func(context.Context, *slog.Logger, *serve.Certificates) (serve.Service, error) {
		return nil, errors.New("cannot be built")
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, tc := range map[string]struct {
		o    serve.Process
		says string
	}{
		"open to the world": {serve.Process{Addr: "0.0.0.0:0"}, "without API keys"},
		"port in use":       {serve.Process{Addr: taken.Addr().String()}, "in use"},
		"no keys":           {serve.Process{Addr: "127.0.0.1:0", Flags: serve.Flags{Keys: filepath.Join(t.TempDir(), "none.yaml")}}, "none.yaml"},
		"cannot be built":   {serve.Process{Addr: "127.0.0.1:0"}, "cannot be built"},
	} {
		tc.o.Flags.LogLevel = "error"
		if err := serve.Run(t.Context(), tc.o, built); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q in it", name, err, tc.says)
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}
