// Command victim is Pawl for the crash suite: the unchanged services, with an observer that kills the process, or holds
// up a goroutine, at a chosen point. `victim all` runs executor, planner and pool in one process, as `pawl up` does; `victim executor` runs executor and
// planner, and `victim pool` the pool. It writes its address and the points that it reaches to standard output. It ends with its standard input, so
// that it never outlives the suite.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"pawl.dev/executor-svc/executor"
	"pawl.dev/executor-svc/executor/executortest"
	"pawl.dev/mcppool-svc/mcppool"
	"pawl.dev/planner-svc/planner"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

// settings are the arguments; killer reads the environment.
type settings struct {
	role, listen, data, mcpConfig, pool string
}

func main() {
	var s settings
	flag.StringVar(&s.listen, "listen", "127.0.0.1:0", "where to serve gRPC")
	flag.StringVar(&s.data, "data", "", "data folder")
	flag.StringVar(&s.mcpConfig, "mcp-config", "", "mcpServers file of a pool")
	flag.StringVar(&s.pool, "pool", "", "address of the pool of `victim executor`")
	flag.Parse()
	s.role = flag.Arg(0)
	serve.RelaxGC()
	if err := s.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// service is the common interface of the three services.
type service interface {
	Register(grpc.ServiceRegistrar)
	Run(context.Context) error
}

func (s settings) run(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	crash, err := newKiller(os.Stdout)
	if err != nil {
		return err
	}
	services, err := s.services(ctx, log, crash.at)
	if err != nil {
		return err
	}
	options := serve.Options{Auth: identity.Local(), Log: log, Local: true}
	server, err := serve.New(options)
	if err != nil {
		return err
	}
	lis, err := serve.Listen(s.listen)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, service := range services {
		service.Register(server)
		g.Go(func() error { return service.Run(ctx) })
	}
	go readCommands(os.Stdin, crash)
	fmt.Printf("serving %s\n", lis.Addr())
	g.Go(func() error { return server.Serve(ctx, lis) })
	return g.Wait()
}

// services returns the services of the role, the executor last.
func (s settings) services(ctx context.Context, log *slog.Logger, observer executortest.Observer) ([]service, error) {
	var services []service
	conn, err := local(log)
	if err != nil {
		return nil, err
	}
	var toPool grpc.ClientConnInterface = conn
	if s.role == "executor" {
		if toPool, err = serve.Dial(s.pool, ""); err != nil {
			return nil, err
		}
	} else {
		pool, err := mcppool.New(ctx, mcppool.Config{DataDir: s.data, MCPConfigs: []string{s.mcpConfig}}, mcppool.Deps{Log: log})
		if err != nil {
			return nil, err
		}
		pool.Register(conn)
		services = append(services, pool)
	}
	if s.role == "pool" {
		return services, nil
	}
	plan, err := planner.New(ctx, planner.Config{}, planner.Deps{Log: log})
	if err != nil {
		return nil, err
	}
	plan.Register(conn)
	tasks, err := executor.New(ctx, executor.Config{DataDir: s.data, MaxRecoveries: 1000, DrainTimeout: time.Second}, executortest.Observe(executor.Deps{
		Planner: conn, Pool: toPool, Log: log,
	}, observer))
	if err != nil {
		return nil, err
	}
	return append(services, plan, tasks), nil
}

// local returns an in-process connection with the interceptors of a network connection.
func local(log *slog.Logger) (*inproc.Conn, error) {
	unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local(), Log: log, Local: true, MaxRecvBytes: planner.MaxRequestBytes})
	if err != nil {
		return nil, err
	}
	return inproc.New(unary, stream), nil
}

// readCommands arms the killer if a line says "die N", and frees the goroutine that is held up at a point if another line arrives. It ends the process when
// the input ends.
func readCommands(in io.Reader, crash *killer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "die %d", &n); err == nil {
			crash.arm(n)
			continue
		}
		crash.free()
	}
	os.Exit(0)
}
