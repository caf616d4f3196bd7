package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"google.golang.org/grpc"

	"pawl.dev/gateway/gateway"
	"pawl.dev/services/conf"
	"pawl.dev/services/serve"
	"pawl.dev/services/telemetry"
)

// run serves until ctx is done.
func run(ctx context.Context, s settings) (err error) {
	if err := serve.CheckBind(s.HTTP, s.Authenticated); err != nil {
		return err
	}
	version := conf.Version()
	shutdown, err := telemetry.Setup(ctx, name, version)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutdown(context.WithoutCancel(ctx))) }()
	log := slog.New(telemetry.LogHandler(name, slog.NewTextHandler(os.Stderr, nil)))

	conns, err := dial(s.Executor, s.Pool, s.Planner)
	if err != nil {
		return err
	}
	defer func() {
		for _, c := range conns {
			err = errors.Join(err, c.Close())
		}
	}()
	cfg := gateway.Config{AllowHosts: s.AllowHost, AllowOrigins: s.AllowOrigin, Authenticated: s.Authenticated, Version: version}
	g, err := gateway.New(ctx, cfg, gateway.Deps{Executor: conns[0], Pool: conns[1], Planner: conns[2], Log: log})
	if err != nil {
		return err
	}
	lis, err := serve.Listen(s.HTTP)
	if err != nil {
		return err
	}
	log.Info("serving", "http", "http://"+lis.Addr().String(), "docs", "http://"+lis.Addr().String()+"/docs")
	return g.Serve(ctx, lis)
}

// dial makes connections that send no token of their own: callers' credentials are passed on.
func dial(addrs ...string) ([]*grpc.ClientConn, error) {
	var conns []*grpc.ClientConn
	for _, addr := range addrs {
		c, err := serve.Dial(addr, "")
		if err != nil {
			for _, opened := range conns {
				err = errors.Join(err, opened.Close())
			}
			return nil, fmt.Errorf("connect the gateway: %w", err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}
