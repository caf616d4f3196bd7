package mcppool

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/api"
	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/config"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcpgo"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/mcppool-svc/workspace"
)

// Service is a running pool.
type Service struct {
	cfg       Config
	registry  *registry.Registry
	connector *mcpgo.Connector
	pool      *conn.Pool
	caller    *call.Caller
	api       *api.Server
	close     func() error
}

// New reads the configuration and the registrations. Close what it returns.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	servers, err := configured(cfg, log)
	if err != nil {
		return nil, err
	}
	reg, err := registry.Open(cfg.DataDir, servers, log)
	if err != nil {
		return nil, err
	}
	log.InfoContext(ctx, "MCP pool ready", "configured_servers", len(servers), "data", cfg.DataDir)
	s := &Service{cfg: cfg, registry: reg}
	s.connector = mcpgo.NewConnector(mcpgo.Config{
		Version: cfg.Version, MaxMessage: cfg.MaxMessageBytes, Environ: cfg.Environ,
		Builtins: map[string]mcpgo.OpenBuiltin{spec.BuiltinWorkspace: openWorkspace},
	}, log)
	s.pool = conn.New(cfg.pool(), s.connector.Connect, log)
	s.caller = call.New(s.pool, log)
	s.api = api.New(reg, s.pool, s.caller)
	s.close = sync.OnceValue(s.shutdown)
	return s, nil
}

// configured lists the servers that come from files and flags.
func configured(cfg Config, log *slog.Logger) ([]*spec.Server, error) {
	servers, err := config.Read(cfg.MCPConfigs, log)
	if err != nil || cfg.Workspace == "" {
		return servers, err
	}
	w, err := workspaceServer(cfg.Workspace)
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		if s.Key() == w.Key() {
			return nil, fmt.Errorf("the MCP configuration names a server %q, and so does the workspace setting; rename the former", w.ID)
		}
	}
	return append(servers, w), nil
}

func openWorkspace(root string) (*server.MCPServer, io.Closer, error) {
	w, err := workspace.NewServer(root)
	if err != nil {
		return nil, nil, err
	}
	return w.MCP(), w, nil
}

// Register offers the pool over gRPC.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	mcppoolv1.RegisterMcpPoolServiceServer(r, s.api)
}

// Run closes idle connections until ctx is done, then refuses new calls and returns when the running ones have ended or
// were cut off after the drain timeout.
func (s *Service) Run(ctx context.Context) error {
	s.pool.Run(ctx)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	s.caller.Drain(grace)
	return nil
}

// Close ends all connections and child processes and returns when they are gone, within a few seconds. Calls still running
// end with an unknown outcome.
func (s *Service) Close() error { return s.close() }

func (s *Service) shutdown() error {
	s.pool.Close()
	s.connector.Close()
	return s.registry.Close()
}
