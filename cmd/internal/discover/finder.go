// Package discover connects a command to a server: the one named by --server, else a running one, else one that it starts in this process.
// It also finds the workspace server of the current folder.
package discover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/privatefile"
	"pawl.dev/services/serve"
)

// Kind tells how a server was found.
type Kind int

const (
	// Named is a server that the user named; it may be on another machine.
	Named Kind = iota
	// Running is a server in another process of this machine.
	Running
	// Embedded is a server in this process.
	Embedded
)

// ErrNone means that no running server was found.
var ErrNone = errors.New("no server is running")

// Server is a connection to a server that has answered.
type Server struct {
	Kind Kind
	Addr string
	Conn grpc.ClientConnInterface
	// Close closes the connection, and stops an embedded server gracefully.
	Close func() error

	ofCommand bool // see ServerInfo.OfCommand
}

// Local reports whether the server certainly runs on this machine; a named one may run elsewhere.
func (s *Server) Local() bool { return s.Kind != Named }

// Conn is a connection to another process.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// Config configures how a server is found.
type Config struct {
	Server      string            // the address that the user named; if set, no other is tried
	Parts       map[string]Part   // parts that may run elsewhere than at Server, by proto package
	DataDir     string            // "": the default
	TLS         serve.TLS         // the certificates for connections with TLS
	Key         string            // the API key to send
	Login       *LoginCredentials // sent instead of a key to servers in other processes; may be nil
	KeyFromFlag bool              // Key comes from --key; if the server has no keys, the user is told
	Flags       string            // flags with which another command line reaches the same server
	Fallback    string            // the address to try if no server of the data folder answers; "" for none

	Start func(ctx context.Context, dataDir string) (*Server, error) // returns executor.ErrLocked if another process holds the folder; nil: never start one
	Note  func(string)                                               // tells the user about delays and lost connections; may be nil
	Alive func(pid int) bool                                         // reports whether a process exists; nil: the function Alive

	// Patience is how long to wait for the process that has the data folder to answer or to exit; 3 s if 0.
	Patience time.Duration
	// ReconnectPatience is how long to wait for a lost server to come back; 30 s if 0. A server that stops gracefully finishes its
	// running calls first.
	ReconnectPatience time.Duration
}

// DefaultGRPC is the gRPC address of `pawl up`.
const DefaultGRPC = "127.0.0.1:7411"

// Dir returns the absolute path of the data folder.
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
	// answerTimeout is how long a known server has to answer. It is long, because a command that gives up would start a second server.
	answerTimeout = 5 * time.Second
	// noteAfter is the time after which the user is told that a server is slow.
	noteAfter = time.Second
	// guessTimeout is how long the fallback address has to answer. Another program may listen there.
	guessTimeout = time.Second
	retryEvery   = 50 * time.Millisecond
	patience     = 3 * time.Second

	reconnectEvery    = 500 * time.Millisecond
	reconnectPatience = 30 * time.Second
)

// open finds a server, or starts one in this process if there is none. It waits for at most patience until a process that has the data folder answers
// or exits.
func (s *Session) open(ctx context.Context, patience time.Duration) (*Server, error) {
	deadline := time.Now().Add(patience)
	for {
		server, err := s.findExisting(ctx)
		if errors.Is(err, ErrNone) && s.cfg.Start != nil {
			server, err = s.start(ctx)
		}
		if !errors.Is(err, executor.ErrLocked) {
			return server, err
		}
		if time.Now().After(deadline) {
			return nil, s.heldError(err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retryEvery):
		}
	}
}

// findExisting connects to a running server: the named one, else that of the data folder, else the one at the fallback address.
func (s *Session) findExisting(ctx context.Context) (*Server, error) {
	if s.cfg.Server != "" {
		return s.dialNamed(ctx)
	}
	dir, err := s.cfg.Dir()
	if err != nil {
		return nil, err
	}
	if info := ReadServerFile(dir); info != nil && info.GRPC != "" && s.cfg.Alive(info.PID) {
		server, err := s.dial(ctx, info.GRPC, Running, answerTimeout)
		if err == nil {
			server.ofCommand = info.OfCommand
			return server, nil
		}
		if advice := tlsAdvice(err); advice != "" && strings.HasPrefix(info.GRPC, secure) {
			return nil, ui.Errorf("no connection to the server of the data folder %s, at %s: %s", dir, info.GRPC, Plainly(err)).Then("%s", advice)
		}
	}
	if s.cfg.Fallback != "" {
		if server, err := s.dial(ctx, s.cfg.Fallback, Running, guessTimeout); err == nil {
			return server, nil
		}
	}
	return nil, ErrNone
}

// start runs a suite in this process. The suite outlives ctx.
func (s *Session) start(ctx context.Context) (*Server, error) {
	dir, err := s.cfg.Dir()
	if err != nil {
		return nil, err
	}
	if info := ReadServerFile(dir); info != nil && info.GRPC != "" && info.OwnSettings && !s.cfg.Alive(info.PID) {
		// Its tasks would run here without its settings, and fail.
		return nil, ui.Errorf("the server of the data folder %s (pid %d) was killed; it had settings of its own, such as MCP servers or keys", dir, info.PID).
			Then("start it again with pawl up and its own flags; tasks go on where they were")
	}
	return s.cfg.Start(context.WithoutCancel(ctx), dir)
}

// dialNamed connects to the server that the user named.
func (s *Session) dialNamed(ctx context.Context) (*Server, error) {
	server, err := s.dial(ctx, s.cfg.Server, Named, answerTimeout)
	if err != nil {
		return nil, ui.Errorf("no server answers at %s: %s", s.cfg.Server, Plainly(err)).Then("%s", cmp.Or(tlsAdvice(err),
			"check that this is the server's gRPC address, or leave --server and PAWL_SERVER out to use this machine's server"))
	}
	if home, ok := server.Conn.(Conn); ok && len(s.cfg.Parts) > 0 {
		all := &multiConn{
			home: home, parts: s.cfg.Parts, conns: map[string]Conn{},
			dial: func(addr string) (Conn, error) { return s.cfg.dial(addr, s.cfg.Key, Named) },
		}
		server.Conn, server.Close = all, all.Close
	}
	return server, nil
}

// dial connects and asks for the server's health.
func (s *Session) dial(ctx context.Context, addr string, kind Kind, timeout time.Duration) (*Server, error) {
	conn, err := s.cfg.dial(addr, s.cfg.Key, kind)
	if err != nil {
		return nil, err
	}
	slow := time.AfterFunc(noteAfter, func() {
		s.slowNote.Do(func() { s.cfg.Note("waiting for the server at " + addr) })
	})
	defer slow.Stop()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := checkHealth(ctx, conn, ""); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &Server{Kind: kind, Addr: addr, Conn: conn, Close: conn.Close}, nil
}

// heldError explains that another process has locked the data folder and does not answer.
func (s *Session) heldError(cause error) error {
	who := "another process"
	dir, _ := s.cfg.Dir() // no error, because it succeeded before
	if info := ReadServerFile(dir); info != nil {
		who = fmt.Sprintf("another process (pid %d, gRPC %s)", info.PID, info.GRPC)
	}
	return ui.WrapError(cause, "the data folder %s is held by %s, which does not answer", dir, who).
		Then("wait for its end or stop it, or use another folder with --data DIR")
}

// answersWithoutKey reports whether a server answers without a key.
func (s *Session) answersWithoutKey(ctx context.Context, server *Server) bool {
	if server.Kind == Embedded {
		return true
	}
	conn, err := s.cfg.dial(server.Addr, "", server.Kind)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_, err = executorv1.NewExecutorServiceClient(conn).ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 1})
	return err == nil
}

// secure begins the address of a server that uses TLS.
const secure = "https://"

// dial connects to a server, or to its replicas: a comma-separated list, or dns:///name:port. A server of this machine uses TLS only if its address
// says so, because the certificate authorities may be meant for other servers.
func (c Config) dial(addr, key string, kind Kind) (Conn, error) {
	var files serve.TLS
	if kind != Running || strings.HasPrefix(addr, secure) {
		files = c.TLS
	}
	certs, err := files.Open(nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", unusableFiles, err)
	}
	if serve.Several(addr) {
		return certs.DialReplicas(addr, key)
	}
	return certs.Dial(addr, key)
}

const unusableFiles = "the certificates for the connection"

// tlsAdvice returns what to do if one side of a failed connection expected TLS and the other did not, or a certificate was refused; else "".
func tlsAdvice(err error) string {
	switch text := err.Error(); {
	case strings.HasPrefix(text, unusableFiles):
		return "correct --ca, --client-cert and --client-key (PAWL_CA, PAWL_CLIENT_CERT, PAWL_CLIENT_KEY)"
	case strings.Contains(text, "remote error: tls"):
		return "the server requires a certificate that it accepts: --client-cert FILE --client-key FILE"
	case strings.Contains(text, "error reading server preface"):
		return "if the server uses TLS, write its address with https://"
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return "the server does not use TLS: leave https:// and --ca out"
	case strings.Contains(text, "tls: "):
		return "use an address that the server's certificate names, and give its certificate authority with --ca FILE"
	}
	return ""
}

// Part locates a part of Pawl that may run in a separate process.
type Part struct {
	Name string // for messages
	Addr string // for several replicas, a comma-separated list or dns:///name:port
	// Given is set if the user named Addr. Otherwise Addr is a default, for a server that lacks the part.
	Given bool
}

// multiConn is a Conn to a Pawl of several processes. It sends each call to the process that serves the called method.
type multiConn struct {
	home  Conn // the named server
	dial  func(addr string) (Conn, error)
	parts map[string]Part // by proto package

	mu    sync.Mutex
	conns map[string]Conn // guarded by mu; by proto package; may hold home
}

// Close closes all connections.
func (p *multiConn) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.home.Close()
	for _, c := range p.conns {
		if c != p.home {
			_ = c.Close()
		}
	}
	return err
}

// Invoke implements grpc.ClientConnInterface.
func (p *multiConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c, err := p.connFor(ctx, method)
	if err != nil {
		return err
	}
	return c.Invoke(oneReplica(ctx), method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (p *multiConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c, err := p.connFor(ctx, method)
	if err != nil {
		return nil, err
	}
	return c.NewStream(oneReplica(ctx), desc, method, opts...)
}

// oneReplica routes the calls of all commands to the same replica, which alone knows its running calls and pending logins.
func oneReplica(ctx context.Context) context.Context { return serve.WithAffinity(ctx, "pawl") }

// connFor returns the connection for a method, such as /pawl.mcppool.v1.McpPoolService/CallTool.
func (p *multiConn) connFor(ctx context.Context, method string) (Conn, error) {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	pkg := service[:max(strings.LastIndexByte(service, '.'), 0)]
	part, ok := p.parts[pkg]
	if !ok {
		return p.home, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.conns[pkg]; c != nil {
		return c, nil
	}
	c, err := p.choose(ctx, part, service)
	if err == nil {
		p.conns[pkg] = c
	}
	return c, err
}

// choose connects to the process of a part: at the address that the user gave, else the named server or the part's default address. If the part is
// at neither, choose returns the named server, whose errors name the missing service.
func (p *multiConn) choose(ctx context.Context, part Part, service string) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if !part.Given && status.Code(checkHealth(ctx, p.home, service)) != codes.NotFound {
		return p.home, nil
	}
	c, err := p.dial(part.Addr)
	if err == nil {
		if err = checkHealth(ctx, c, service); err == nil {
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

// Plainly returns why a server could not be reached, without gRPC's wrapping.
func Plainly(err error) string {
	text := status.Convert(err).Message()
	if _, inner, ok := strings.Cut(text, `desc = "`); ok {
		text = strings.TrimSuffix(inner, `"`)
	}
	text = strings.TrimPrefix(text, "transport: authentication handshake failed: ")
	return strings.TrimPrefix(text, "transport: Error while dialing: ")
}

// checkHealth returns nil if the server serves the service ("": any). The error has the code NotFound if the server does not offer the service.
// A server whose disk is full is not healthy, but answers; one that stops refuses calls.
func checkHealth(ctx context.Context, c Conn, service string) error {
	answer, err := healthv1.NewHealthClient(c).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
	if err != nil || answer.GetStatus() == healthv1.HealthCheckResponse_SERVING {
		return err
	}
	_, err = identityv1.NewIdentityServiceClient(c).WhoAmI(ctx, &identityv1.WhoAmIRequest{})
	if code := status.Code(err); code == codes.OK || code == codes.Unauthenticated || code == codes.PermissionDenied {
		return nil
	}
	return fmt.Errorf("its health is %s", answer.GetStatus())
}

// serverFile is the file in a data folder that names its server's process and addresses. It may outlive that process.
const serverFile = "server.json"

// ServerInfo describes the process that serves a data folder.
type ServerInfo struct {
	PID       int       `json:"pid"`
	GRPC      string    `json:"grpc,omitempty"` // empty: it does not serve gRPC; begins with https:// if it uses TLS, as does HTTP
	HTTP      string    `json:"http,omitempty"`
	Version   string    `json:"version,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Workspace string    `json:"workspace,omitempty"`
	DataDir   string    `json:"data,omitempty"`
	// OwnSettings is set if the server has MCP servers, models or keys from its own files, which other commands do not know.
	OwnSettings bool `json:"ownSettings,omitempty"`
	// OfCommand is set if the server runs in a command other than pawl up, and ends with it.
	OfCommand bool `json:"ofCommand,omitempty"`
}

// WriteServerFile writes the server file atomically, readable by its owner alone.
func WriteServerFile(dataDir string, info ServerInfo) error {
	raw, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", serverFile, err)
	}
	return privatefile.Write(filepath.Join(dataDir, serverFile), func(w io.Writer) error {
		_, err := w.Write(append(raw, '\n'))
		return err
	})
}

// ReadServerFile reads the server file. It returns nil if the file is missing or cannot be parsed.
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

// RemoveServerFile removes the server file if it names the process pid.
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

// Alive reports whether a process with that id exists.
func Alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}
