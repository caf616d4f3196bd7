// Package discover is a command's connection to a server: the one that was named, the one that has the data folder, or one that it
// starts in this process. It finds the workspace server of the current folder too.
package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/cmd/internal/ui"
	"pawl.dev/executor-svc/executor"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/serve"
)

// Kind is how a server was found.
type Kind int

const (
	// Named by the user; it may be on another machine.
	Named Kind = iota
	// Running in another process of this machine.
	Running
	// Embedded in this process.
	Embedded
)

// ErrNone says that no server runs and none may be started.
var ErrNone = errors.New("no server is running")

// Server is a server that answered.
type Server struct {
	Kind Kind
	Addr string
	Conn grpc.ClientConnInterface
	// Close ends the connection, and an embedded server gracefully.
	Close func() error
}

// Local says that the server sees this machine's files.
func (s *Server) Local() bool { return s.Kind != Named }

// Conn is a connection to another process.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// Config says where to look.
type Config struct {
	Server   string          // given by the user; nothing else is tried then
	Parts    map[string]Part // beside Server, by package of the services; others are the server's own
	DataDir  string          // "": the usual one
	Key      string          // the API key to send
	AskedKey bool            // the key was given for this command: the user is told if the server has no keys
	Flags    string          // reach the same server from another command line
	Fallback string          // the address to try when the data folder names none; "" for none

	Start func(ctx context.Context, dataDir string) (*Server, error) // nil: never start one; executor.ErrLocked: another process holds the folder
	Note  func(string)                                               // tells the user what takes long or happens; nil: nothing is said
	Alive func(pid int) bool                                         // nil: Alive

	// Patience is how long to wait for the holder of the data folder to answer or to leave; 3 s if 0.
	Patience time.Duration
	// ReconnectPatience is how long to wait for a server that went away; 30 s if 0. A server that stops gracefully first finishes
	// its running calls.
	ReconnectPatience time.Duration
}

// DefaultGRPC is where `pawl up` listens.
const DefaultGRPC = "127.0.0.1:7411"

// Dir is the data folder, absolute.
func (c *Config) Dir() (string, error) {
	if c.DataDir != "" {
		return filepath.Abs(c.DataDir)
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // unset, or invalid by the XDG rules
		home, err := os.UserHomeDir()
		if err != nil {
			return "", ui.Errorf("there is no home folder to keep data in: %v", err).Then("say where with --data DIR or PAWL_DATA")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "pawl"), nil
}

const (
	// answerTimeout is for a server that is there. Where nothing listens that shows at once, and a busy machine is slow: who
	// took it for gone would start a second one.
	answerTimeout = 5 * time.Second
	// sayAfter is how long a server may take to answer before the user is told.
	sayAfter = time.Second
	// guessTimeout is for an address that may belong to another program.
	guessTimeout = time.Second
	retryEvery   = 50 * time.Millisecond
	patience     = 3 * time.Second

	reconnectEvery    = 500 * time.Millisecond
	reconnectPatience = 30 * time.Second
)

// open returns a server that answers, and starts one in this process if there is none.
func (s *Session) open(ctx context.Context) (*Server, error) {
	if s.cfg.Server != "" {
		return s.named(ctx)
	}
	enough := time.Now().Add(cmp.Or(s.cfg.Patience, patience))
	for {
		server, err := s.existing(ctx)
		if errors.Is(err, ErrNone) && s.cfg.Start != nil {
			server, err = s.start(ctx)
		}
		if !errors.Is(err, executor.ErrLocked) {
			return server, err
		}
		if time.Now().After(enough) {
			return nil, s.heldError(err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retryEvery):
		}
	}
}

// existing returns a server that runs already: the named one, else the one of the data folder, else the one at the usual address.
func (s *Session) existing(ctx context.Context) (*Server, error) {
	if s.cfg.Server != "" {
		return s.named(ctx)
	}
	dir, err := s.cfg.Dir()
	if err != nil {
		return nil, err
	}
	if info := ReadServerFile(dir); info != nil && info.GRPC != "" && s.alive(info.PID) {
		if server, err := s.dial(ctx, info.GRPC, Running, answerTimeout); err == nil {
			return server, nil
		}
	}
	if s.cfg.Fallback != "" {
		if server, err := s.dial(ctx, s.cfg.Fallback, Running, guessTimeout); err == nil {
			return server, nil
		}
	}
	return nil, ErrNone
}

// start runs a suite in this process. It outlives the search for a server: its context is not bound to the search's patience.
func (s *Session) start(ctx context.Context) (*Server, error) {
	dir, err := s.cfg.Dir()
	if err != nil {
		return nil, err
	}
	if info := ReadServerFile(dir); info != nil && info.GRPC != "" && info.OwnSettings && !s.alive(info.PID) {
		// Its tasks would run here without those settings, and fail.
		return nil, ui.Errorf("the server of the data folder %s (pid %d) was killed; it has settings of its own", dir, info.PID).
			Then("start it again with pawl up and its own flags; tasks go on where they were")
	}
	return s.cfg.Start(context.WithoutCancel(ctx), dir)
}

func (s *Session) named(ctx context.Context) (*Server, error) {
	server, err := s.dial(ctx, s.cfg.Server, Named, answerTimeout)
	if err != nil {
		return nil, ui.Errorf("no server answers at %s: %s", s.cfg.Server, Plainly(err)).
			Then("check the address (it is the gRPC one), or leave --server and PAWL_SERVER out to use this machine's own")
	}
	if home, ok := server.Conn.(Conn); ok && len(s.cfg.Parts) > 0 {
		all := &parts{
			home: home, where: s.cfg.Parts, chosen: map[string]Conn{},
			dial: func(addr string) (Conn, error) { return dial(addr, s.cfg.Key) },
		}
		server.Conn, server.Close = all, all.Close
	}
	return server, nil
}

func (s *Session) alive(pid int) bool {
	if s.cfg.Alive != nil {
		return s.cfg.Alive(pid)
	}
	return Alive(pid)
}

// dial connects and asks for the server's health.
func (s *Session) dial(ctx context.Context, addr string, kind Kind, timeout time.Duration) (*Server, error) {
	conn, err := dial(addr, s.cfg.Key)
	if err != nil {
		return nil, err
	}
	slow := time.AfterFunc(sayAfter, func() {
		s.waiting.Do(func() { s.note("waiting for the server at " + addr) })
	})
	defer slow.Stop()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	if err == nil && answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("it says %s", answer.GetStatus())
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &Server{Kind: kind, Addr: addr, Conn: conn, Close: conn.Close}, nil
}

// heldError explains a data folder that stays locked by a process that does not answer.
func (s *Session) heldError(cause error) error {
	who := "another process"
	dir, _ := s.cfg.Dir() // it is known: it was found locked
	if info := ReadServerFile(dir); info != nil {
		who = fmt.Sprintf("another process (pid %d, gRPC %s)", info.PID, info.GRPC)
	}
	return ui.WrapError(cause, "the data folder %s is held by %s, which does not answer", dir, who).
		Then("wait until it has ended or end it, or use another folder with --data DIR")
}

// keyless reports whether a server answers without a key too.
func (s *Session) keyless(ctx context.Context, server *Server) bool {
	if server.Kind == Embedded {
		return true
	}
	conn, err := dial(server.Addr, "")
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_, err = executorv1.NewExecutorServiceClient(conn).ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 1})
	return err == nil
}

// dial connects to a server, or to several replicas of one: a list with commas, or dns:///name:port.
func dial(addr, key string) (Conn, error) {
	if serve.Several(addr) {
		return serve.DialReplicas(addr, key)
	}
	return serve.Dial(addr, key)
}
