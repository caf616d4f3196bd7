package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"pawl.dev/gateway/gateway"
	"pawl.dev/services/conf"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
	"pawl.dev/services/telemetry"
)

// run serves until ctx is done.
func run(ctx context.Context, s settings) (err error) {
	log := slog.New(telemetry.LogHandler(name, slog.NewTextHandler(os.Stderr, nil)))
	if err := serve.CheckBind(s.HTTP, s.Authenticated, s.TLS, log); err != nil {
		return err
	}
	certs, err := s.TLS.Open(log)
	if err != nil {
		return err
	}
	version := conf.Version()
	shutdown, err := telemetry.Setup(ctx, name, version)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutdown()) }()
	g, conns, err := open(s, certs, version, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conns.Close()) }()
	lis, err := serve.Listen(s.HTTP)
	if err != nil {
		return err
	}
	url := s.TLS.Scheme() + "://" + lis.Addr().String()
	log.Info("serving", "http", url, "docs", url+"/docs")
	return g.Serve(ctx, lis)
}

// open returns a gateway over connections that send no token: it forwards the callers' credentials.
func open(s settings, certs *serve.Certificates, version string, log *slog.Logger) (*gateway.Gateway, connections, error) {
	var conns connections
	deps := gateway.Deps{Log: log}
	for _, to := range []struct {
		addr string
		conn *grpc.ClientConnInterface
	}{{s.Executor, &deps.Executor}, {s.Pool, &deps.Pool}, {s.Planner, &deps.Planner}} {
		c, err := dial(certs, to.addr)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("connect the gateway: %w", err), conns.Close())
		}
		*to.conn, conns = c, append(conns, c)
	}
	cfg := gateway.Config{AllowHosts: s.AllowHost, AllowOrigins: s.AllowOrigin, Authenticated: s.Authenticated, Certificates: certs, Version: version,
		Limits: s.Limits, Requests: s.Limits.Requests()}
	if s.OIDC != "" {
		issuers, err := identity.OpenIssuers(s.OIDC)
		if err != nil {
			return nil, nil, errors.Join(err, conns.Close())
		}
		cfg.Issuers = issuers.URLs
	}
	g, err := gateway.New(cfg, deps)
	if err != nil {
		return nil, nil, errors.Join(err, conns.Close())
	}
	return g, conns, nil
}

// connection is a connection that can be closed.
type connection interface {
	grpc.ClientConnInterface
	io.Closer
}

type connections []connection

func (c connections) Close() (err error) {
	for _, conn := range c {
		err = errors.Join(err, conn.Close())
	}
	return err
}

func dial(certs *serve.Certificates, addr string) (connection, error) {
	if !serve.Several(addr) {
		return certs.Dial(addr, "")
	}
	r, err := certs.DialReplicas(addr, "")
	if err != nil {
		return nil, err
	}
	return byCaller{r}, nil
}

// byCaller sends all calls of a caller to the same replica, because only the replica that runs a tool call can attach a client to it,
// cancel it, or answer its questions.
type byCaller struct{ *serve.Replicas }

func (c byCaller) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.Replicas.Invoke(withCaller(ctx), method, args, reply, opts...)
}

func (c byCaller) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.Replicas.NewStream(withCaller(ctx), desc, method, opts...)
}

// withCaller sets the affinity of the call to a hash of the caller's credential.
func withCaller(ctx context.Context) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	sum := sha256.Sum256([]byte(strings.Join(md.Get("authorization"), " ")))
	return serve.WithAffinity(ctx, hex.EncodeToString(sum[:8]))
}
