// Package discover is a command's connection to a server: the one that was named, the one that has the data folder, or one that it
// starts in this process. It finds the workspace server of the current folder too.
package discover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

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
func (c Config) Dir() (string, error) {
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
	if info := ReadServerFile(dir); info != nil && info.GRPC != "" && s.cfg.Alive(info.PID) {
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
	if info := ReadServerFile(dir); info != nil && info.GRPC != "" && info.OwnSettings && !s.cfg.Alive(info.PID) {
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

// dial connects and asks for the server's health.
func (s *Session) dial(ctx context.Context, addr string, kind Kind, timeout time.Duration) (*Server, error) {
	conn, err := dial(addr, s.cfg.Key)
	if err != nil {
		return nil, err
	}
	slow := time.AfterFunc(sayAfter, func() {
		s.waiting.Do(func() { s.cfg.Note("waiting for the server at " + addr) })
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

// Part is where a part of the suite is that may run in processes of its own.
type Part struct {
	Name string // what people call it
	Addr string // of several replicas a list with commas, or dns:///name:port
	// Given: the user named it, so that it is asked whatever the server itself offers. Else it is a guess, for a server that lacks the part.
	Given bool
}

// parts are the processes of one suite: the named server, and others for what it does not offer. It implements Conn.
type parts struct {
	home  Conn
	dial  func(addr string) (Conn, error)
	where map[string]Part // by package of the services

	mu     sync.Mutex
	chosen map[string]Conn // guarded by mu; by package
}

// Close ends all connections.
func (p *parts) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.home.Close()
	for _, c := range p.chosen {
		if c != p.home {
			_ = c.Close()
		}
	}
	return err
}

// Invoke implements grpc.ClientConnInterface.
func (p *parts) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c, err := p.of(ctx, method)
	if err != nil {
		return err
	}
	return c.Invoke(oneReplica(ctx), method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (p *parts) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c, err := p.of(ctx, method)
	if err != nil {
		return nil, err
	}
	return c.NewStream(oneReplica(ctx), desc, method, opts...)
}

// oneReplica makes all calls of command lines go to one of several replicas, as long as it is there: each keeps its calls in flight, and the
// logins that were begun, for itself.
func oneReplica(ctx context.Context) context.Context { return serve.WithAffinity(ctx, "pawl") }

// of is the process that a method is called at: /pawl.mcppool.v1.McpPoolService/CallTool.
func (p *parts) of(ctx context.Context, method string) (Conn, error) {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	pkg := service[:max(strings.LastIndexByte(service, '.'), 0)]
	part, ok := p.where[pkg]
	if !ok {
		return p.home, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.chosen[pkg]; c != nil {
		return c, nil
	}
	c, err := p.choose(ctx, part, service)
	if err == nil {
		p.chosen[pkg] = c
	}
	return c, err
}

// choose finds the process of a part. Where only the guess is left and nothing is there, the server itself says what it lacks.
func (p *parts) choose(ctx context.Context, part Part, service string) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if !part.Given && status.Code(serves(ctx, p.home, service)) != codes.NotFound {
		return p.home, nil
	}
	c, err := p.dial(part.Addr)
	if err == nil {
		if err = serves(ctx, c, service); err == nil {
			return c, nil
		}
		_ = c.Close()
	}
	if !part.Given {
		return p.home, nil
	}
	return nil, ui.Errorf("no %s answers at %s: %s", part.Name, part.Addr, Plainly(err)).
		Then("correct --pool or --planner (PAWL_POOL, PAWL_PLANNER), or leave it out")
}

// Plainly is why a server could not be reached, without what gRPC puts around it.
func Plainly(err error) string {
	text := status.Convert(err).Message()
	if _, inner, ok := strings.Cut(text, `desc = "`); ok {
		text = strings.TrimSuffix(inner, `"`)
	}
	return strings.TrimPrefix(text, "transport: Error while dialing: ")
}

// serves says whether a server offers a service; the error has the code NotFound where it is there and does not.
func serves(ctx context.Context, c Conn, service string) error {
	answer, err := healthv1.NewHealthClient(c).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
	if err == nil && answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("it says %s", answer.GetStatus())
	}
	return err
}

// serverFile names, in a data folder, which process serves it and where. It does not say whether that process still lives.
const serverFile = "server.json"

// ServerInfo says which process serves a data folder.
type ServerInfo struct {
	PID       int       `json:"pid"`
	GRPC      string    `json:"grpc,omitempty"` // empty: it does not listen there
	HTTP      string    `json:"http,omitempty"`
	Version   string    `json:"version,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Workspace string    `json:"workspace,omitempty"`
	DataDir   string    `json:"data,omitempty"`
	// OwnSettings reports that the server has MCP servers, models or keys from its own files, which other commands do not know.
	OwnSettings bool `json:"ownSettings,omitempty"`
}

// WriteServerFile puts the note there as a whole, readable by its owner alone.
func WriteServerFile(dataDir string, info ServerInfo) error {
	raw, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", serverFile, err)
	}
	return WriteFile(filepath.Join(dataDir, serverFile), func(f *os.File) error {
		_, err := f.Write(append(raw, '\n'))
		return err
	})
}

// WriteFile replaces a file by what write writes, as a whole or not at all. It is readable by its owner alone.
func WriteFile(path string, write func(*os.File) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = errors.Join(write(tmp), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ReadServerFile returns the note; nil if it is missing or cannot be understood, as a newer or a broken one.
func ReadServerFile(dataDir string) *ServerInfo {
	raw, err := os.ReadFile(filepath.Join(dataDir, serverFile))
	if err != nil {
		return nil
	}
	var info ServerInfo
	if json.Unmarshal(raw, &info) != nil || info.PID <= 0 {
		return nil
	}
	return &info
}

// RemoveServerFile takes the note away if it is the one of process pid.
func RemoveServerFile(dataDir string, pid int) error {
	info := ReadServerFile(dataDir)
	if info == nil || info.PID != pid {
		return nil
	}
	if err := os.Remove(filepath.Join(dataDir, serverFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", serverFile, err)
	}
	return nil
}

// Alive says whether a process of that id exists.
func Alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}
