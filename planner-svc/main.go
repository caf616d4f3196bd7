// Command planner-svc runs the planner as a process of its own.
package main

import (
	"context"
	"errors"
	"os"

	"pawl.dev/services/conf"
	"pawl.dev/services/process"
	"pawl.dev/services/serve"
	"pawl.dev/services/telemetry"

	"pawl.dev/planner-svc/planner"
)

const name = "planner-svc"

// settings are the flags; each is also an environment variable (PAWL_GRPC …) and a key of the configuration file.
type settings struct {
	GRPC           string `name:"grpc" placeholder:"ADDR" default:"127.0.0.1:7413" help:"Where to serve gRPC (${default})."`
	planner.Config `embed:""`
	process.Flags  `embed:""`
}

func main() {
	var s settings
	err := conf.Parse(name, "Reasons about tasks with models: Pawl's planner.", &s, os.Args[1:])
	serve.Main(name, func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return s.run(ctx)
	})
}

// run is process.Run with room for larger requests: they bring a task's whole history.
func (s *settings) run(ctx context.Context) (err error) {
	log := process.Logger(name, s.LogLevel)
	auth, err := process.Authenticator(s.Keys)
	if err != nil {
		return err
	}
	if err := serve.CheckBind(s.GRPC, s.Keys != ""); err != nil {
		return err
	}
	stop, err := telemetry.Setup(ctx, name, conf.Version())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	service, err := planner.New(ctx, s.Config, planner.Deps{Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	srv, err := serve.New(serve.Options{Auth: auth, Log: log, Local: s.Keys == "", MaxRecvBytes: planner.MaxRequestBytes})
	if err != nil {
		return err
	}
	service.Register(srv)
	lis, err := serve.Listen(s.GRPC)
	if err != nil {
		return err
	}
	log.Info("serving gRPC", "addr", lis.Addr().String())
	return srv.Serve(ctx, lis)
}
