// Package suite runs all of Pawl in one process: the executor, the planner, the MCP pool and the gateway. They call each other directly,
// through the same interceptors as over a network. The package wires, starts and stops them, and has no logic of tasks, tools or models.
package suite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/executor-svc/executor"
	"pawl.dev/gateway/gateway"
	"pawl.dev/mcppool-svc/mcppool"
	"pawl.dev/planner-svc/planner"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/loopback"
	"pawl.dev/services/privatefile"
	"pawl.dev/services/serve"
)

// ErrLocked is wrapped by the error of New if another process uses the data folder.
var ErrLocked = executor.ErrLocked

// Suite is the whole of Pawl in one process. Run may be called once.
type Suite struct {
	cfg    Config
	log    *slog.Logger
	auth   identity.Authenticator
	keys   *identity.Callers   // nil: callers need no credential
	certs  *serve.Certificates // nil: no TLS
	health *health.Server      // the health service of conn
	conn   *inproc.Conn
	// requests bounds the memory of requests over both listeners.
	requests *serve.Budget

	executor *executor.Service
	pool     *mcppool.Service
	planner  *planner.Service
	gateway  *gateway.Gateway // nil: no HTTP
	server   *serve.Server    // nil: no gRPC listener

	grpcLis, httpLis net.Listener
	closers          []func() error // in the order of opening
}

// New opens the stores and listens; Run answers the calls. If New fails, it closes everything that it has opened. log may be nil.
func New(ctx context.Context, cfg Config, log *slog.Logger) (_ *Suite, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg, err = cfg.complete(); err != nil {
		return nil, err
	}
	privatefile.WarnOfDataFolder(log, cfg.DataDir)
	s := &Suite{cfg: cfg, log: log, health: health.NewServer(), requests: cfg.Limits.Requests()}
	for _, build := range []func(context.Context) error{s.setUpAuth, s.buildServices, s.buildServers} {
		if err := build(ctx); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// setUpAuth sets up authentication and the in-process connection.
func (s *Suite) setUpAuth(context.Context) (err error) {
	if s.auth, err = identity.Open(s.cfg.KeysFile, s.cfg.IssuersFile); err != nil {
		return err
	}
	s.keys, _ = s.auth.(*identity.Callers)
	for _, addr := range []string{s.cfg.GRPCAddr, s.cfg.HTTPAddr} {
		if addr == "" {
			continue
		}
		if err := serve.CheckBind(addr, s.keys != nil, s.cfg.TLS, s.log); err != nil {
			return err
		}
	}
	if s.certs, err = s.cfg.TLS.Open(s.log); err != nil {
		return err
	}
	inProcess := s.options()
	inProcess.MaxRecvBytes = planner.MaxRequestBytes // a request to the planner carries a task's whole history
	unary, stream, err := serve.Interceptors(inProcess)
	if err != nil {
		return err
	}
	s.conn = inproc.New(unary, stream)
	identityv1.RegisterIdentityServiceServer(s.conn, identity.NewAPI(s.auth))
	healthv1.RegisterHealthServer(s.conn, serve.Health{Server: s.health, Healthy: s.healthy})
	return nil
}

// healthy returns why the service of this name ("": any) cannot work now, or nil. Of all services, only the executor's tasks stop on a full disk.
func (s *Suite) healthy(service string) error {
	if service == "" || service == executorv1.ExecutorService_ServiceDesc.ServiceName {
		return s.executor.Healthy()
	}
	return nil
}

func (s *Suite) options() serve.Options {
	return serve.Options{Auth: s.auth, Log: s.log, Local: s.keys == nil}
}

// buildServices builds the services. The executor comes first, because opening its journal fails if another process uses the data folder.
func (s *Suite) buildServices(ctx context.Context) (err error) {
	asService := s.connAs("executor", identity.RoleService)
	settings := s.cfg.Executor
	settings.DataDir = s.cfg.DataDir
	s.executor, err = executor.New(ctx, settings, executor.Deps{Planner: asService, Pool: asService, Log: s.log})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.executor.Close)
	pool := s.cfg.Pool
	pool.DataDir, pool.MCPConfigs, pool.Workspace, pool.Version = s.cfg.DataDir, s.cfg.MCPConfigs, s.cfg.Workspace, s.cfg.Version
	if pool.LoginRedirectURI == "" {
		pool.LoginRedirectURI = loginRedirectURI(s.cfg.TLS.Scheme(), s.cfg.HTTPAddr)
	}
	s.pool, err = mcppool.New(ctx, pool, mcppool.Deps{Log: s.log, Builtins: s.cfg.Builtins, Planner: s.connAs("mcppool", identity.RoleService)})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.pool.Close)
	s.planner, err = planner.New(ctx, planner.Config{DefaultModel: s.cfg.DefaultModel, Models: s.cfg.Models, ModelTries: s.cfg.ModelTries, MaxModelRequests: s.cfg.MaxModelRequests}, planner.Deps{Log: s.log})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.planner.Close)
	s.register(s.conn)
	return nil
}

func (s *Suite) register(r grpc.ServiceRegistrar) {
	s.executor.Register(r)
	s.pool.Register(r)
	s.planner.Register(r)
}

// buildServers opens the listeners and builds the gRPC server and the gateway.
func (s *Suite) buildServers(context.Context) (err error) {
	if s.cfg.GRPCAddr != "" {
		if s.grpcLis, err = s.listen(s.cfg.GRPCAddr); err != nil {
			return err
		}
		options := s.options()
		options.Certificates, options.Limits, options.Requests = s.certs, s.cfg.Limits, s.requests
		if s.server, err = serve.New(options); err != nil {
			return err
		}
		s.register(s.server)
	}
	if s.cfg.HTTPAddr == "" {
		return nil
	}
	if s.httpLis, err = s.listen(s.cfg.HTTPAddr); err != nil {
		return err
	}
	s.gateway, err = gateway.New(gateway.Config{
		AllowHosts: s.cfg.AllowHosts, AllowOrigins: s.cfg.AllowOrigins, Authenticated: s.keys != nil, Issuers: s.keys.IssuerURLs, Certificates: s.certs, Version: s.cfg.Version,
		Limits: s.cfg.Limits, Requests: s.requests,
	}, gateway.Deps{Executor: s.conn, Pool: s.conn, Planner: s.conn, Log: s.log})
	return err
}

func (s *Suite) listen(addr string) (net.Listener, error) {
	lis, err := serve.Listen(addr)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error {
		if err := lis.Close(); !errors.Is(err, net.ErrClosed) { // its server may have closed it
			return err
		}
		return nil
	})
	return lis, nil
}

// connAs returns an in-process connection of the user sub with these roles; without keys, of the user `local`.
func (s *Suite) connAs(sub string, roles ...identity.Role) grpc.ClientConnInterface {
	if s.keys == nil {
		return s.conn
	}
	return s.conn.WithToken(s.keys.Ephemeral(sub, roles))
}

// Conn returns an in-process connection of the user `local`, who is an operator.
func (s *Suite) Conn() grpc.ClientConnInterface {
	return s.connAs(identity.LocalSub, identity.RoleUser, identity.RoleOperator)
}

// GRPCAddr returns the gRPC listener's address, or "".
func (s *Suite) GRPCAddr() string { return addrOf(s.grpcLis) }

// HTTPAddr returns the gateway's address, or "".
func (s *Suite) HTTPAddr() string { return addrOf(s.httpLis) }

func addrOf(lis net.Listener) string {
	if lis == nil {
		return ""
	}
	return lis.Addr().String()
}

// close closes everything that New has opened, in reverse order.
func (s *Suite) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Config configures a suite. Its flags are those of `pawl up`.
type Config struct {
	HTTPAddr     string   `name:"http" default:"${http}" placeholder:"ADDR" help:"Address at which REST listens (default ${default}); none turns it off."` // empty: there is no gateway
	GRPCAddr     string   `name:"grpc" default:"${grpc}" placeholder:"ADDR" help:"Address at which gRPC listens (default ${default}); none turns it off."` // empty: there is no listener
	MCPConfigs   []string `name:"mcp-config" sep:"none" type:"existingfile" placeholder:"FILE" help:"File with MCP servers in the mcpServers format (repeatable)."`
	KeysFile     string   `name:"keys" type:"path" placeholder:"FILE" help:"File of hashed API keys (pawl keys add); without it, everyone on this machine may do everything."`
	IssuersFile  string   `name:"oidc" type:"path" placeholder:"FILE" help:"File of OpenID Connect issuers (YAML) whose tokens are accepted, beside the keys if there are any."`
	Workspace    string   `xor:"workspace" type:"existingdir" placeholder:"DIR" help:"Folder of the built-in MCP server workspace (default: the current one)."` // empty: there is no such server
	DefaultModel string   `name:"model" complete:"model" placeholder:"NAME" help:"The model for tasks and agents that name none."`
	Models       string   `type:"path" placeholder:"FILE" help:"File of named language models (YAML or JSON). MCP servers with sampling enabled may use them."`
	ModelTries   int      `placeholder:"N" default:"3" help:"How many attempts a model gets to give a valid reply before planning fails (default ${default})."` // 0: the planner's default
	AllowHosts   []string `name:"allow-host" sep:"none" placeholder:"NAME" help:"Host name under which REST may be reached (repeatable)."`
	AllowOrigins []string `name:"allow-origin" sep:"none" placeholder:"ORIGIN" help:"Web origin whose pages may call REST (repeatable)."`

	// TLS names the certificates of the listeners. With authorities, gRPC callers need a certificate; HTTP callers do not.
	TLS serve.TLS `embed:"" group:"tls"`
	// Limits bound what clients can make the suite use.
	Limits serve.Limits `embed:"" group:"clients"`
	// Executor configures the executor; New sets its data folder.
	Executor executor.Config `embed:"" group:"limits"`
	// MaxModelRequests bounds the concurrent requests of one user to models; 0: any number. The local user is not limited.
	MaxModelRequests int `group:"limits" help:"Requests to models that one user may have running; 0 for any number." default:"64"`

	// Pool configures the MCP pool; New sets its data folder, mcpServers files, workspace and version.
	Pool mcppool.Config `kong:"-"`
	// DataDir holds everything that must outlive the process. Required; New creates it if it does not exist.
	DataDir string `kong:"-"`
	// Builtins are the embedding program's own tools, Go functions or in-process MCP servers, by server id.
	Builtins map[string]mcppool.Builtin `kong:"-"`
	// OfCommand is set if the suite belongs to a command and ends with it.
	OfCommand bool `kong:"-"`
	// Version is the version that clients see; may be empty.
	Version string `kong:"-"`
}

// complete resolves the paths of the data folder and the workspace, and creates the data folder.
func (c Config) complete() (Config, error) {
	if c.DataDir == "" {
		return c, fmt.Errorf("no data folder is configured")
	}
	var err error
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil {
		return c, fmt.Errorf("data folder: %w", err)
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return c, fmt.Errorf("make the data folder: %w", err)
	}
	if c.Workspace == "" {
		return c, nil
	}
	if c.Workspace, err = discover.RealPath(c.Workspace); err != nil {
		return c, fmt.Errorf("workspace: %w", err)
	}
	return c, nil
}

// loginRedirectURI returns the redirect URI for logins to MCP servers if the gateway listens on loopback at a fixed port. Otherwise it returns
// "", and an operator must configure the URI.
func loginRedirectURI(scheme, httpAddr string) string {
	_, port, err := net.SplitHostPort(httpAddr)
	if err != nil || port == "0" || !loopback.Is(httpAddr) {
		return ""
	}
	return scheme + "://" + httpAddr + "/v1/mcpLogins:callback"
}

// Address returns how clients on this machine dial a listener's address: with https:// if the listeners use TLS. It is empty for an empty address.
func (c Config) Address(addr string) string {
	if c.TLS.Cert == "" || addr == "" {
		return addr
	}
	return "https://" + Reachable(addr)
}

// Reachable replaces a wildcard listen address (0.0.0.0, ::) by a loopback address.
func Reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
