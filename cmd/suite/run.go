package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/cmd/internal/discover"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// part is a component of the suite that runs until it is stopped.
type part struct {
	name string
	run  func(context.Context) error
	stop context.CancelFunc
	done chan error
}

// Run serves until ctx is done, and then stops in an order that loses nothing. First it removes the server file, and health becomes
// NOT_SERVING. Then the listeners, the pool's streams and the executor stop together; the executor waits for its running tool calls, records
// their outcomes and ends its watchers. Then the planner and the pool stop, and Run closes the stores. If a part fails, Run stops the others
// and returns the error.
func (s *Suite) Run(ctx context.Context) error {
	first, last := s.parts()
	failed := make(chan error, len(first)+len(last))
	background := context.WithoutCancel(ctx)
	err := s.writeServerFile() // the listeners are open already
	for _, p := range append(slices.Clone(last), first...) {
		p.start(background, failed)
	}
	for _, service := range []string{
		"", executorv1.ExecutorService_ServiceDesc.ServiceName, mcppoolv1.McpPoolService_ServiceDesc.ServiceName, plannerv1.PlannerService_ServiceDesc.ServiceName,
	} {
		s.health.SetServingStatus(service, healthv1.HealthCheckResponse_SERVING)
	}
	if err == nil {
		select {
		case <-ctx.Done():
			s.log.InfoContext(background, "stopping")
		case err = <-failed:
		}
	}
	errs := []error{err, discover.RemoveServerFile(s.cfg.DataDir, os.Getpid())}
	s.health.Shutdown()
	errs = append(errs, stop(first), stop(last), s.close())
	return errors.Join(errs...)
}

// parts returns the parts of the suite that stop first, and those that stop last.
func (s *Suite) parts() (first, last []*part) {
	first = []*part{{name: "executor", run: s.executor.Run}, {name: "MCP pool's streams", run: func(ctx context.Context) error {
		<-ctx.Done()
		s.pool.EndStreams() // they do not end by themselves, and the gRPC server waits for them to end
		return nil
	}}}
	if s.gateway != nil {
		first = append(first, &part{name: "gateway", run: func(ctx context.Context) error { return s.gateway.Serve(ctx, s.httpLis) }})
	}
	if s.server != nil {
		first = append(first, &part{name: "gRPC", run: func(ctx context.Context) error { return s.server.Serve(ctx, s.grpcLis) }})
	}
	last = []*part{{name: "planner", run: s.planner.Run}, {name: "MCP pool", run: s.pool.Run}}
	return first, last
}

// start runs the part in a goroutine. It sends an error to failed if the part ends before it is stopped.
func (p *part) start(ctx context.Context, failed chan<- error) {
	ctx, p.stop = context.WithCancel(ctx)
	p.done = make(chan error, 1)
	go func() {
		err := p.run(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", p.name, err)
		}
		if ctx.Err() == nil {
			if err == nil {
				err = fmt.Errorf("%s ended by itself", p.name)
			}
			failed <- err
			err = nil // report it once
		}
		p.done <- err
	}()
}

// stop stops all parts together and waits for them.
func stop(parts []*part) error {
	for _, p := range parts {
		p.stop()
	}
	var errs []error
	for _, p := range parts {
		errs = append(errs, <-p.done)
	}
	return errors.Join(errs...)
}

// writeServerFile writes the file by which other processes find this process.
func (s *Suite) writeServerFile() error {
	return discover.WriteServerFile(s.cfg.DataDir, discover.ServerInfo{
		PID: os.Getpid(), GRPC: s.cfg.Address(s.GRPCAddr()), HTTP: s.cfg.Address(s.HTTPAddr()), Version: s.cfg.Version,
		Started: time.Now().UTC(), Workspace: s.cfg.Workspace, OfCommand: s.cfg.OfCommand,
		OwnSettings: len(s.cfg.MCPConfigs) > 0 || len(s.cfg.Builtins) > 0 || s.keys != nil || s.cfg.Models != "",
	})
}
