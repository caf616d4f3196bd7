package gateway

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"pawl.dev/gateway/internal/console"
	"pawl.dev/gateway/internal/guard"
	"pawl.dev/gateway/internal/mcpserver"
	"pawl.dev/gateway/internal/openai"
	"pawl.dev/gateway/internal/openapi"
	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/rest"
	"pawl.dev/gateway/internal/stream"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/serve"
)

// Gateway serves REST over connections to the services.
type Gateway struct {
	handler  http.Handler
	mcp      *mcpserver.Handler
	health   *health
	log      *slog.Logger
	bounded  bool // connections without a valid credential are bounded
	limits   serve.Limits
	certs    *serve.Certificates // nil: no TLS
	stopping chan struct{}       // closed by Close: streams end
	stop     sync.Once
}

// New returns a gateway. It makes no calls.
func New(cfg Config, deps Deps) (*Gateway, error) {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{log: deps.Log, bounded: cfg.Authenticated, limits: cfg.Limits.WithDefaults(), certs: cfg.Certificates, stopping: make(chan struct{})}
	conns := rest.Conns{
		Executor: rest.Conn(deps.Executor, "executor", cfg.Authenticated, deps.Log),
		Pool:     rest.Conn(deps.Pool, "pool", cfg.Authenticated, deps.Log),
		Planner:  rest.Conn(deps.Planner, "planner", cfg.Authenticated, deps.Log),
	}
	g.health = &health{services: []service{
		{"executor", executorv1.ExecutorService_ServiceDesc.ServiceName, conns.Executor}, {"pool", mcppoolv1.McpPoolService_ServiceDesc.ServiceName, conns.Pool},
		{"planner", plannerv1.PlannerService_ServiceDesc.ServiceName, conns.Planner},
	}}
	streams := stream.New(stream.Config{Heartbeat: cmp.Or(cfg.Heartbeat, 15*time.Second), Stopping: g.stopping, Log: deps.Log})
	if cfg.Requests == nil {
		cfg.Requests = cfg.Limits.Requests()
	}
	api, err := rest.New(conns, streams, cmp.Or(cfg.MaxBodyBytes, 4<<20), cfg.Authenticated, g.limits.BodyTime, cfg.Requests)
	if err != nil {
		return nil, err
	}
	g.mcp = mcpserver.New(mcpserver.Config{
		Pool: conns.Pool, Executor: conns.Executor, Planner: conns.Planner, Receive: api.Receive, Issuers: cfg.Issuers, Heartbeat: cmp.Or(cfg.Heartbeat, 15*time.Second),
		Stopping: g.stopping, Version: cfg.Version, Log: deps.Log,
	})
	checks, err := guard.New(guard.Config{
		AllowHosts: cfg.AllowHosts, AllowOrigins: cfg.AllowOrigins, AnyHost: cfg.Authenticated,
	})
	if err != nil {
		return nil, err
	}
	login, err := console.New(conns.Pool)
	if err != nil {
		return nil, err
	}
	g.handler = observe(deps.Log, g.limits, split(checks.WrapLanding(login), checks.Wrap(g.routes(api, openai.New(conns, api, streams), openapi.New(api.Routes(), cfg.Version)))))
	return g, nil
}

// split passes requests for the page to which a browser returns after a login to login, and all others to api.
func split(login, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == console.Path {
			login.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// routes returns a handler that serves documents, health checks, the OpenAI API and MCP, and passes all other paths to the API. (http.ServeMux would
// answer unclean paths with a redirect in HTML.)
func (g *Gateway) routes(api, compatible http.Handler, pages *openapi.Docs) http.Handler {
	documents := pages.Handlers()
	documents["/healthz"] = http.HandlerFunc(g.health.live)
	documents["/readyz"] = http.HandlerFunc(g.health.ready)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := documents[r.URL.Path]
		switch {
		case strings.HasPrefix(r.URL.Path, openai.Base+"/"):
			compatible.ServeHTTP(w, r)
		case r.URL.Path == mcpserver.Path || strings.HasPrefix(r.URL.Path, mcpserver.Path+"/"):
			g.mcp.ServeHTTP(w, r)
		case mcpserver.IsMetadata(r):
			g.mcp.ServeMetadata(w, r)
		case !ok:
			api.ServeHTTP(w, r)
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			page.ServeHTTP(w, r)
		default:
			problem.MethodNotAllowed(w, r, http.MethodGet, http.MethodHead)
		}
	})
}

// Handler returns the gateway as a handler, for a caller that has its own server.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Close makes the gateway unready and ends its streams; it does not wait for running requests. Serve calls it.
func (g *Gateway) Close() error {
	g.stop.Do(func() {
		g.health.stopping.Store(true)
		close(g.stopping)
	})
	return nil
}
