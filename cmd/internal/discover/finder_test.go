package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/executor-svc/executor"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/inproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errLocked = fmt.Errorf("locked: %w", executor.ErrLocked)

// inside is a server inside this process, of these services.
func inside(services ...clitest.Registrar) *discover.Server {
	conn := inproc.New(nil, nil)
	for _, service := range services {
		service.Register(conn)
	}
	return &discover.Server{Kind: discover.Embedded, Addr: "inside", Conn: conn, Close: func() error { return nil }}
}

// config looks in an empty data folder and may start a suite.
func config(t *testing.T) discover.Config {
	return discover.Config{
		DataDir: t.TempDir(), Patience: 300 * time.Millisecond,
		Start: func(context.Context, string) (*discover.Server, error) { return inside(), nil },
	}
}

// answering is a service that answers who calls.
type answering struct {
	identityv1.UnimplementedIdentityServiceServer
}

func (a answering) Register(r grpc.ServiceRegistrar) { identityv1.RegisterIdentityServiceServer(r, a) }

func (answering) WhoAmI(context.Context, *identityv1.WhoAmIRequest) (*identityv1.WhoAmIResponse, error) {
	return &identityv1.WhoAmIResponse{}, nil
}

// note writes server.json for this process, which lives.
func note(t *testing.T, dir, addr string) {
	t.Helper()
	if err := discover.WriteServerFile(dir, discover.ServerInfo{PID: os.Getpid(), GRPC: addr}); err != nil {
		t.Fatal(err)
	}
}

// closed returns an address at which nothing listens.
func closed(t *testing.T) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().String()
}

// silent takes connections and says nothing.
func silent(t *testing.T) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	return lis.Addr().String()
}

// slow takes connections at once, and answers them later than a machine at rest would.
func slow(t *testing.T) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, done := grpc.NewServer(), make(chan struct{})
	healthv1.RegisterHealthServer(srv, health.NewServer())
	time.AfterFunc(1500*time.Millisecond, func() {
		defer close(done)
		_ = srv.Serve(lis)
	})
	t.Cleanup(func() {
		srv.Stop()
		<-done
		_ = lis.Close()
	})
	return lis.Addr().String()
}

func TestOpen(t *testing.T) {
	for _, tc := range []struct {
		name    string
		arrange func(t *testing.T, cfg *discover.Config) (addr string)
		kind    discover.Kind
	}{
		{"nothing runs", func(*testing.T, *discover.Config) string { return "inside" }, discover.Embedded},
		{"the data folder names a server", func(t *testing.T, cfg *discover.Config) string {
			addr := clitest.Serve(t).Addr
			note(t, cfg.DataDir, addr)
			return addr
		}, discover.Running},
		{"the note's process is dead, its port taken by another", func(t *testing.T, cfg *discover.Config) string {
			note(t, cfg.DataDir, clitest.Serve(t).Addr)
			cfg.Alive = func(int) bool { return false }
			return "inside"
		}, discover.Embedded},
		{"the note's process lives, but serves no more", func(t *testing.T, cfg *discover.Config) string {
			note(t, cfg.DataDir, closed(t))
			return "inside"
		}, discover.Embedded},
		{"the note's server does not answer", func(t *testing.T, cfg *discover.Config) string {
			note(t, cfg.DataDir, silent(t))
			cfg.Patience = 5 * time.Second
			return "inside"
		}, discover.Embedded},
		{"the note's server is slow", func(t *testing.T, cfg *discover.Config) string {
			addr := slow(t)
			note(t, cfg.DataDir, addr)
			return addr
		}, discover.Running},
		{"the note's server is stopping", func(t *testing.T, cfg *discover.Config) string {
			server := clitest.Serve(t)
			server.Health.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
			note(t, cfg.DataDir, server.Addr)
			return "inside"
		}, discover.Embedded},
		{"the note's server has a full disk, and answers", func(t *testing.T, cfg *discover.Config) string {
			server := clitest.Serve(t, answering{})
			server.Health.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
			note(t, cfg.DataDir, server.Addr)
			return server.Addr
		}, discover.Running},
		{"the named server has a full disk, and answers", func(t *testing.T, cfg *discover.Config) string {
			server := clitest.Serve(t, answering{})
			server.Health.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
			cfg.Server = server.Addr
			return server.Addr
		}, discover.Named},
		{"a broken note", func(t *testing.T, cfg *discover.Config) string {
			if err := os.WriteFile(cfg.DataDir+"/"+"server.json", []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			return "inside"
		}, discover.Embedded},
		{"only the default port answers", func(t *testing.T, cfg *discover.Config) string {
			cfg.Fallback = clitest.Serve(t).Addr
			return cfg.Fallback
		}, discover.Running},
		{"the data folder goes before the default port", func(t *testing.T, cfg *discover.Config) string {
			addr := clitest.Serve(t).Addr
			note(t, cfg.DataDir, addr)
			cfg.Fallback = clitest.Serve(t).Addr
			return addr
		}, discover.Running},
		{"a server is named", func(t *testing.T, cfg *discover.Config) string {
			note(t, cfg.DataDir, clitest.Serve(t).Addr)
			cfg.Server = clitest.Serve(t).Addr
			return cfg.Server
		}, discover.Named},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := config(t)
			addr := tc.arrange(t, &cfg)
			said := make(chan string, 1)
			session, err := opened(t, cfg, func(s string) { said <- s })
			if err != nil {
				t.Fatal(err)
			}
			if slow := strings.Contains(tc.name, "slow"); slow && <-said != "waiting for the server at "+addr || len(said) > 0 && !strings.Contains(tc.name, "does not answer") {
				t.Error("only a server that is slow should be reported as waited for")
			}
			if got := session.Opened(); got.Kind != tc.kind || got.Addr != addr {
				t.Errorf("got %v %s, want %v %s", got.Kind, got.Addr, tc.kind, addr)
			}
			if local := session.Opened().Local(); local != (tc.kind != discover.Named) {
				t.Errorf("local: %v", local)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that is named and not there is an error: nothing else is used instead.
func TestNamedNeverFallsBack(t *testing.T) {
	cfg := config(t)
	note(t, cfg.DataDir, clitest.Serve(t).Addr)
	cfg.Server = closed(t)
	cfg.Start = func(context.Context, string) (*discover.Server, error) {
		t.Error("a suite was started")
		return inside(), nil
	}
	_, err := discover.New(cfg).Server(t.Context())
	var e *ui.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "no server answers at "+cfg.Server) || e.Next == "" {
		t.Errorf("got %v", err)
	}
}

func TestNoServerAndNoStart(t *testing.T) {
	cfg := config(t)
	cfg.Start = nil
	if _, err := discover.New(cfg).Server(t.Context()); !errors.Is(err, discover.ErrNone) {
		t.Errorf("got %v", err)
	}
}

// Two commands at once: the one that comes second to the data folder waits for the first one's note.
func TestRaceForTheDataFolder(t *testing.T) {
	cfg := config(t)
	cfg.Patience = 10 * time.Second
	server := clitest.Serve(t)
	tries := 0
	cfg.Start = func(context.Context, string) (*discover.Server, error) {
		if tries++; tries == 3 {
			note(t, cfg.DataDir, server.Addr)
		}
		return nil, fmt.Errorf("open: %w", errLocked)
	}
	session, err := opened(t, cfg, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.Opened(); got.Kind != discover.Running || got.Addr != server.Addr {
		t.Errorf("got %v %s", got.Kind, got.Addr)
	}
}

// The holder of the data folder ends without a note: the second command takes over.
func TestRaceWithOneThatEnds(t *testing.T) {
	cfg := config(t)
	cfg.Patience = 10 * time.Second
	tries := 0
	cfg.Start = func(context.Context, string) (*discover.Server, error) {
		if tries++; tries < 3 {
			return nil, errLocked
		}
		return inside(), nil
	}
	server, err := discover.New(cfg).Server(t.Context())
	if err != nil || server.Kind != discover.Embedded {
		t.Errorf("got %v, %v", server, err)
	}
}

func TestDataFolderWhoseHolderDoesNotAnswer(t *testing.T) {
	cfg := config(t)
	cfg.Start = func(context.Context, string) (*discover.Server, error) { return nil, errLocked }
	note(t, cfg.DataDir, closed(t))
	_, err := discover.New(cfg).Server(t.Context())
	var e *ui.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, fmt.Sprintf("pid %d", os.Getpid())) || !strings.Contains(e.Next, "--data") {
		t.Errorf("got %v", err)
	}
	if !errors.Is(err, errLocked) {
		t.Error("the cause is lost")
	}
}

func TestStartThatFailsIsNotTriedAgain(t *testing.T) {
	cfg := config(t)
	broken, tries := errors.New("disk full"), 0
	cfg.Start = func(context.Context, string) (*discover.Server, error) { tries++; return nil, broken }
	if _, err := discover.New(cfg).Server(t.Context()); !errors.Is(err, broken) || tries != 1 {
		t.Errorf("got %v after %d tries", err, tries)
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	cfg := config(t)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Patience = time.Hour
	cfg.Start = func(context.Context, string) (*discover.Server, error) { cancel(); return nil, errLocked }
	if _, err := discover.New(cfg).Server(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// opened is a session that has found or started its server.
func opened(t *testing.T, cfg discover.Config, note func(string)) (*discover.Session, error) {
	t.Helper()
	cfg.Note = note
	s := discover.New(cfg)
	_, err := s.Server(t.Context())
	return s, err
}
