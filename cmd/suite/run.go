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
)

// part is something that runs until it is told to stop.
type part struct {
	name string
	run  func(context.Context) error
	stop context.CancelFunc
	done chan error
}

// Run serves until ctx is done, and then stops in an order in which nothing is lost: health says NOT_SERVING; streams and
// calls from outside end while the executor, whose stop is what ends its watchers, waits for its running tool calls and
// records their outcomes; then the planner and the pool end, and the stores are closed. A part that fails stops all
// others; its error is returned. Run closes the suite.
func (s *Suite) Run(ctx context.Context) error {
	front, behind := s.parts()
	failed := make(chan error, len(front)+len(behind))
	background := context.WithoutCancel(ctx)
	err := s.note() // it listens already
	for _, p := range append(slices.Clone(behind), front...) {
		p.start(background, failed)
	}
	s.health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
	if err == nil {
		select {
		case <-ctx.Done():
			s.log.InfoContext(background, "stopping")
		case err = <-failed:
		}
	}
	errs := []error{err, discover.RemoveServerFile(s.cfg.DataDir, os.Getpid())}
	s.health.Shutdown()
	errs = append(errs, stop(front), stop(behind), s.close())
	return errors.Join(errs...)
}

// parts are what runs, in the order in which it stops.
func (s *Suite) parts() (front, behind []*part) {
	front = []*part{{name: "executor", run: s.executor.Run}, {name: "MCP pool's streams", run: func(ctx context.Context) error {
		<-ctx.Done()
		s.pool.EndStreams() // they would never end, and the server waits for them
		return nil
	}}}
	if s.gateway != nil {
		front = append(front, &part{name: "gateway", run: func(ctx context.Context) error { return s.gateway.Serve(ctx, s.httpLis) }})
	}
	if s.server != nil {
		front = append(front, &part{name: "gRPC", run: func(ctx context.Context) error { return s.server.Serve(ctx, s.grpcLis) }})
	}
	behind = []*part{{name: "planner", run: s.planner.Run}, {name: "MCP pool", run: s.pool.Run}}
	return front, behind
}

// start runs the part; what ends before it was told to is a failure.
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
			err = nil // it is told once
		}
		p.done <- err
	}()
}

// stop tells all of them at once and waits for each.
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

// note tells other processes where this one is.
func (s *Suite) note() error {
	return discover.WriteServerFile(s.cfg.DataDir, discover.ServerInfo{
		PID: os.Getpid(), GRPC: s.GRPCAddr(), HTTP: s.HTTPAddr(), Version: s.cfg.Version,
		Started: time.Now().UTC(), Workspace: s.cfg.Workspace,
		OwnSettings: len(s.cfg.MCPConfigs) > 0 || len(s.cfg.Builtins) > 0 || s.cfg.KeysFile != "" || s.cfg.Models != "",
	})
}
