// Command executor-svc runs the executor as a process of its own.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"google.golang.org/grpc"

	"pawl.dev/services/conf"
	"pawl.dev/services/privatefile"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/executor"
)

const name = "executor-svc"

// settings holds the flags; each is also an environment variable (PAWL_GRPC …) and a key of the configuration file.
type settings struct {
	GRPC            string `name:"grpc" placeholder:"ADDR" default:"127.0.0.1:7412" help:"Where to serve gRPC (${default})."`
	Planner         string `placeholder:"ADDR" default:"127.0.0.1:7413" help:"The planner's gRPC address (${default})."`
	Pool            string `placeholder:"ADDR" default:"127.0.0.1:7414" help:"The MCP pool's gRPC address (${default}); for several replicas dns:///name:port, or their addresses separated by commas."`
	ServiceKey      string `placeholder:"KEY" help:"API key of role service, for calls to planner and pool."`
	executor.Config `embed:""`
	serve.Flags     `embed:""`
}

func main() {
	var s settings
	err := conf.Parse(name, "Runs tasks durably: Pawl's executor.", &s, os.Args[1:])
	serve.Main(name, func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return serve.Run(ctx, serve.Process{Name: name, Addr: s.GRPC, Flags: s.Flags}, s.build)
	})
}

// build makes the service and its connections to the planner and the pool, which need not run yet.
func (s *settings) build(ctx context.Context, log *slog.Logger, certs *serve.Certificates) (serve.Service, error) {
	if s.Authenticated() && s.ServiceKey == "" {
		return nil, errors.New("with --keys or --oidc the planner and the pool require a key from the executor too; create one with " +
			"`pawl keys add executor --role service` and give it as --service-key or PAWL_SERVICE_KEY")
	}
	if err := cmp.Or(s.TLS.CheckKeyTransport(s.ServiceKey, "--planner", s.Planner), s.TLS.CheckKeyTransport(s.ServiceKey, "--pool", s.Pool)); err != nil {
		return nil, err
	}
	planner, err := certs.Dial(s.Planner, s.ServiceKey)
	if err != nil {
		return nil, err
	}
	pool, err := s.dialPool(certs)
	if err != nil {
		return nil, errors.Join(err, planner.Close())
	}
	privatefile.WarnOfDataFolder(log, s.DataDir)
	service, err := executor.New(ctx, s.Config, executor.Deps{Planner: planner, Pool: pool, Log: log})
	if err != nil {
		return nil, errors.Join(err, planner.Close(), pool.Close())
	}
	return dialed{service, func() error { return errors.Join(planner.Close(), pool.Close()) }}, nil
}

// dialPool returns a connection to the pool, or to its replicas.
func (s *settings) dialPool(certs *serve.Certificates) (poolConn, error) {
	if serve.Several(s.Pool) {
		return certs.DialReplicas(s.Pool, s.ServiceKey)
	}
	return certs.Dial(s.Pool, s.ServiceKey)
}

type poolConn interface {
	grpc.ClientConnInterface
	io.Closer
}

// dialed is a service that owns its connections: Close closes them after the service.
type dialed struct {
	*executor.Service
	closeConns func() error
}

func (d dialed) Close() error { return errors.Join(d.Service.Close(), d.closeConns()) }
