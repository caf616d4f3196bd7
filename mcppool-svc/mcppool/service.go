package mcppool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/mcppool-svc/internal/api"
	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/oauth"
	"pawl.dev/mcppool-svc/internal/peer"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/audit"
	"pawl.dev/services/outbound"
	"pawl.dev/services/seal"
	"pawl.dev/services/serve"
)

// Service is a running pool.
type Service struct {
	cfg                                Config
	log                                *slog.Logger
	registry                           *registry.Registry
	connector                          *mcp.Connector
	logins                             *oauth.Logins
	pool                               *conn.Pool
	calls                              *inflight.Calls
	cache                              *call.Cache
	api                                *api.Server
	pins                               *pin.Book
	transportHints, anonymousElicitors *registry.Memory
	peers                              *peer.Set      // nil: this is the only replica
	forgetting                         sync.WaitGroup // goroutines of retireChanged
	closers                            []func() error // in the order of opening
	close                              func() error   // runs shutdown once
}

// New reads the configuration and the registrations, and returns a Service, which the caller must Close.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg, deps = cfg.withDefaults(), deps.withDefaults()
	builtin, err := readBuiltins(deps.Builtins)
	if err != nil {
		return nil, err
	}
	servers, err := configured(cfg, builtin.servers, deps.Log)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, log: deps.Log}
	s.close = sync.OnceValue(s.shutdown)
	if err := s.open(ctx, servers, builtin, deps); err != nil {
		return nil, errors.Join(store.Explain(cfg.DataDir, err), s.Close())
	}
	deps.Log.InfoContext(ctx, "MCP pool ready", "configured_servers", len(servers), "data", cfg.DataDir)
	return s, nil
}

// open builds the parts. It adds what must be closed to closers, even if it fails.
func (s *Service) open(ctx context.Context, servers []*registry.Server, builtin *builtins, deps Deps) (err error) {
	id := uuid.NewString()
	metrics, err := call.NewMetrics(deps.Meter)
	if err != nil {
		return err
	}
	records, err := audit.Open(s.cfg.Audit, deps.Now, deps.Log)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, records.Close)
	st, box, err := s.openStore(ctx, deps)
	if err != nil {
		return err
	}
	if s.registry, err = registry.New(st, servers, deps.Log); err != nil {
		return err
	}
	if s.pins, err = pin.Open(st, deps.Now); err != nil {
		return err
	}
	allowed, err := outbound.ParseRanges(s.cfg.AllowAddresses)
	if err != nil {
		return err
	}
	if s.logins, err = s.openLogins(st, box, allowed, deps); err != nil {
		return err
	}
	s.closers = append(s.closers, s.logins.Close)
	if err := s.connections(st, allowed, builtin, deps); err != nil {
		return err
	}
	s.calls = inflight.New(s.cfg.calls(deps.Now), id)
	s.cache = call.NewCache(s.cfg.MaxCachedBytes, deps.Now)
	var models *call.Models
	if deps.Planner != nil {
		models = call.NewModels(plannerv1.NewPlannerServiceClient(deps.Planner))
	}
	caller := call.New(s.pool, s.calls, call.Deps{
		Lookup: s.registry.Lookup, Models: models, Now: deps.Now, Log: deps.Log, Audit: records, Metrics: metrics, Pins: s.pins, Cache: s.cache,
		MaxResult: s.cfg.MaxToolResultBytes, InputTimeout: s.cfg.InputTimeout,
	})
	s.closers = append(s.closers, s.disconnect)
	unobserve, err := observe(deps.Meter, s.calls, s.pool, s.cache)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, unobserve)
	s.api = api.New(api.Parts{
		Registry: s.registry, Pool: s.pool, Caller: caller, Calls: s.calls, Pins: s.pins, Logins: s.logins, Connector: s.connector, Log: deps.Log, ID: id,
		Models: models, Writable: s.checkWritable, DataDir: s.cfg.DataDir, AllowAddresses: allowed,
	})
	st.Observe(s.applyRemote)
	return nil
}

// connections makes the connector and the connection pool.
func (s *Service) connections(st *replica.Store, allowed []netip.Prefix, builtin *builtins, deps Deps) error {
	var err error
	if s.transportHints, s.anonymousElicitors, err = registry.NewMemories(st, deps.Now, deps.Log); err != nil {
		return err
	}
	s.connector = mcp.NewConnector(mcp.Config{
		Large:          serve.NewBudget("results", s.cfg.MaxLargeBytes),
		TransportHints: s.transportHints, AnonymousElicitors: s.anonymousElicitors,
		Version: s.cfg.Version, MaxMessage: s.cfg.MaxMessageBytes, Environ: s.cfg.Environ,
		AllowAddresses: allowed, ChildLimits: s.cfg.childLimits(), Builtins: builtin.open, Functions: builtin.functions,
		Credentials: s.logins.For,
	}, deps.Log)
	cfg := s.cfg.pool()
	cfg.Exclusive = func(server *registry.Server) bool { return s.anonymousElicitors.Recall(server.Origin()) != "" }
	s.pool = conn.New(cfg, s.connector.Connect, deps.Log)
	return nil
}

// configured returns the servers from configuration files, flags and the program that embeds the pool.
func configured(cfg Config, builtin []*registry.Server, log *slog.Logger) ([]*registry.Server, error) {
	servers, err := registry.Read(cfg.MCPConfigs, log)
	if err != nil {
		return nil, err
	}
	if cfg.Workspace != "" {
		w, err := workspaceServer(cfg.Workspace)
		if err != nil {
			return nil, err
		}
		builtin = append(builtin, w)
	}
	for _, b := range builtin {
		for _, s := range servers {
			if s.Key() == b.Key() {
				return nil, fmt.Errorf("the MCP configuration has a server %q, but that is the id of a built-in server; rename the server in the configuration", b.ID)
			}
		}
	}
	return append(servers, builtin...), nil
}

// Register registers the pool's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	mcppoolv1.RegisterMcpPoolServiceServer(r, s.api)
	if s.peers != nil {
		s.peers.Register(r)
	}
}

// Run closes idle connections, drops old results and exchanges changes with other replicas until ctx is done. Then it refuses new calls,
// waits for the running calls, and cancels them after Config.DrainTimeout. See also Config.KeepResults.
func (s *Service) Run(ctx context.Context) error {
	var background sync.WaitGroup
	background.Go(func() { s.calls.Run(ctx) })
	if s.peers != nil {
		background.Go(func() { s.peers.Run(ctx) })
	}
	s.pool.Run(ctx)
	s.EndStreams()
	background.Wait()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	s.calls.Drain(grace, s.cfg.KeepResults, mcp.ErrStopping)
	return nil
}

// EndStreams ends the streams that watch servers and resources. Run also calls it.
func (s *Service) EndStreams() { s.api.Stop() }

// Close ends all connections and child processes and returns when they are gone, within a few seconds. Calls still running
// end with an unknown outcome.
func (s *Service) Close() error { return s.close() }

func (s *Service) shutdown() error {
	var err error
	for _, c := range slices.Backward(s.closers) {
		err = errors.Join(err, c())
	}
	return err
}

// disconnect closes all connections, which ends all calls. Followers receive the errors of their calls.
func (s *Service) disconnect() error {
	s.pool.Close()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	s.calls.Drain(ended, false, mcp.ErrStopping)
	s.connector.Close()
	return nil
}

// openLogins opens the stored logins.
func (s *Service) openLogins(st *replica.Store, box *seal.Box, allowed []netip.Prefix, deps Deps) (*oauth.Logins, error) {
	cfg := s.cfg
	var catchUp func(context.Context)
	if s.peers != nil {
		catchUp = s.peers.CatchUp
	}
	client := func(s *registry.Server) *http.Client { // without the server's headers
		origin, err := url.Parse(s.HTTP.URL)
		return outbound.NewBareClient(outbound.Server{Origin: origin, Allowed: allowed, PublicOnly: s.HTTP.PublicOnly || err != nil, Advice: mcp.AddressAdvice})
	}
	return oauth.New(oauth.Config{RedirectURI: cfg.LoginRedirectURI, ClientMetadata: cfg.LoginClientMetadata, Box: box}, oauth.Deps{
		Store: st, Client: client, Secret: mcp.Secrets(cfg.Environ), Now: deps.Now, Log: deps.Log, CatchUp: catchUp,
	})
}
