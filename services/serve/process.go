package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"pawl.dev/services/conf"
	"pawl.dev/services/identity"
	"pawl.dev/services/telemetry"
)

// Flags are the flags of every service process, to be embedded into its configuration.
type Flags struct {
	Keys     string `placeholder:"FILE" type:"path" help:"File of hashed API keys (made by pawl keys add). Without it the service listens on loopback only and everyone is the user local."`
	OIDC     string `name:"oidc" placeholder:"FILE" type:"path" help:"File of OpenID Connect issuers (YAML) whose tokens are accepted too. With it, callers are authenticated also without --keys."`
	LogLevel string `placeholder:"LEVEL" default:"info" enum:"debug,info,warn,error" help:"What to log: debug, info, warn or error (${default})."`
	TLS      TLS    `embed:""`
	Limits   Limits `embed:""`
}

// Authenticated reports whether callers need a credential.
func (f Flags) Authenticated() bool { return f.Keys != "" || f.OIDC != "" }

// Main runs the main function of a service. The first SIGINT or SIGTERM ends ctx; the second one ends the process at once. If
// run returns an error, Main prints it and exits with code 1.
func Main(name string, run func(ctx context.Context) error) {
	RelaxGC()
	LimitMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // restores the default action, so that the second signal ends the process
	if err := run(ctx); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Service is a service that Run can run in a process of its own.
type Service interface {
	// Register adds its gRPC services to a server.
	Register(grpc.ServiceRegistrar)
	// Run works until ctx is done and running work has ended.
	Run(ctx context.Context) error
	// Close releases what the service holds, after Run.
	Close() error
}

// Process is the configuration of a service that runs as a process of its own.
type Process struct {
	Name              string // for logs and telemetry
	Addr              string // where to serve gRPC
	Flags             Flags
	MaxRecvBytes      int           // largest request; 0: as in Options
	ServeUntilDrained bool          // take calls while the service drains
	MaxConnectionAge  time.Duration // age at which a client is asked to reconnect; 0: as in Options
}

// Run serves the service that build makes, with the certificates for its own connections, until ctx is done. Then the service drains while the server stops taking calls and waits for
// running ones; with ServeUntilDrained, the server stops only after the service has drained. At last the service is closed.
func Run(ctx context.Context, o Process, build func(context.Context, *slog.Logger, *Certificates) (Service, error)) (err error) {
	log := newLogger(o.Name, o.Flags.LogLevel)
	auth, err := identity.Open(o.Flags.Keys, o.Flags.OIDC)
	if err != nil {
		return err
	}
	if err := CheckBind(o.Addr, o.Flags.Authenticated(), o.Flags.TLS, log); err != nil {
		return err
	}
	certs, err := o.Flags.TLS.Open(log)
	if err != nil {
		return err
	}
	stop, err := telemetry.Setup(ctx, o.Name, conf.Version())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	lis, err := Listen(o.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = lis.Close() }() // the server closes it; this is for errors before
	drained := make(chan struct{})
	options := Options{
		Auth: auth, Log: log, Certificates: certs, Local: !o.Flags.Authenticated(), MaxRecvBytes: o.MaxRecvBytes, MaxConnectionAge: o.MaxConnectionAge,
		Limits: o.Flags.Limits, Requests: o.Flags.Limits.Requests(),
	}
	if o.ServeUntilDrained {
		options.Drained = drained
	}
	srv, err := New(options)
	if err != nil {
		return err
	}
	service, err := build(ctx, log, certs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	service.Register(srv)
	fmt.Fprintf(os.Stderr, "%s: serving gRPC on %s\n", o.Name, lis.Addr())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(drained)
		return service.Run(ctx)
	})
	g.Go(func() error { return srv.Serve(ctx, lis) })
	return g.Wait()
}

// newLogger returns a logger that writes text lines of at least a level to standard error, and makes it the process's default logger.
func newLogger(name, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	handler := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})
	log := slog.New(telemetry.LogHandler(name, handler))
	slog.SetDefault(log)
	return log
}
