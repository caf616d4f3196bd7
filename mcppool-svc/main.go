// Command mcppool-svc runs the MCP pool as a process of its own.
package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"pawl.dev/services/conf"
	"pawl.dev/services/privatefile"
	"pawl.dev/services/serve"

	"pawl.dev/mcppool-svc/mcppool"
)

const name = "mcppool-svc"

// settings are the flags; each is also an environment variable (PAWL_GRPC …) and a key of the configuration file.
type settings struct {
	GRPC             string        `name:"grpc" placeholder:"ADDR" default:"127.0.0.1:7414" help:"Where to serve gRPC (${default})."`
	MaxConnectionAge time.Duration `placeholder:"DURATION" default:"5m" help:"How long a client's connection lasts before the client is asked to connect again, so that it finds new replicas by name (${default})."`
	Peers            []string      `placeholder:"ADDR" help:"The other replicas, which share registered servers, approved tools and logins: host:port, or dns:///name:port for a name that resolves to all of them. May be repeated."`
	Planner          string        `placeholder:"ADDR" default:"127.0.0.1:7413" help:"The planner's gRPC address (${default}). Requests of MCP servers to language models (sampling) go through the planner."`
	ServiceKey       string        `placeholder:"KEY" help:"API key of role service, for calls to the planner and to other replicas."`
	mcppool.Config   `embed:""`
	serve.Flags      `embed:""`
}

func main() {
	var s settings
	err := conf.Parse(name, "Connects to MCP servers and calls their tools: Pawl's MCP pool.", &s, os.Args[1:])
	serve.Main(name, func(ctx context.Context) error {
		if err != nil {
			return err
		}
		options := serve.Process{Name: name, Addr: s.GRPC, Flags: s.Flags, ServeUntilDrained: true, MaxConnectionAge: s.MaxConnectionAge}
		return serve.Run(ctx, options, s.build)
	})
}

// build dials the planner, which need not run yet, and builds the service.
func (s *settings) build(ctx context.Context, log *slog.Logger, certs *serve.Certificates) (serve.Service, error) {
	if len(s.Peers) > 0 && s.Authenticated() && s.ServiceKey == "" {
		return nil, errors.New("with --keys or --oidc the other replicas require a key from this one; make one with " +
			"`pawl keys add mcppool --role service` and give it as --service-key or PAWL_SERVICE_KEY")
	}
	if err := cmp.Or(s.TLS.CheckKeyTransport(s.ServiceKey, "--planner", s.Planner), s.TLS.CheckKeyTransport(s.ServiceKey, "--peers", s.Peers...)); err != nil {
		return nil, err
	}
	planner, err := certs.Dial(s.Planner, s.ServiceKey)
	if err != nil {
		return nil, err
	}
	privatefile.WarnOfDataFolder(log, s.DataDir)
	s.KeepResults = true
	s.Config.Peers, s.Config.ServiceKey, s.Self = s.Peers, s.ServiceKey, s.GRPC
	service, err := mcppool.New(ctx, s.Config, mcppool.Deps{Log: log, Planner: planner, Certificates: certs})
	if err != nil {
		return nil, errors.Join(err, planner.Close())
	}
	return dialed{service, planner.Close}, nil
}

// dialed is a Service that also closes the connection to the planner.
type dialed struct {
	*mcppool.Service
	closePlanner func() error
}

func (d dialed) Close() error { return errors.Join(d.Service.Close(), d.closePlanner()) }
