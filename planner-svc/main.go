// Command planner-svc runs the planner as a process of its own.
package main

import (
	"context"
	"log/slog"
	"os"

	"pawl.dev/services/conf"
	"pawl.dev/services/serve"

	"pawl.dev/planner-svc/planner"
)

const name = "planner-svc"

// settings are the flags; each is also an environment variable (PAWL_GRPC …) and a key of the configuration file.
type settings struct {
	GRPC           string `name:"grpc" placeholder:"ADDR" default:"127.0.0.1:7413" help:"Where to serve gRPC (${default})."`
	planner.Config `embed:""`
	serve.Flags    `embed:""`
}

func main() {
	var s settings
	err := conf.Parse(name, "Reasons about tasks with models: Pawl's planner.", &s, os.Args[1:])
	serve.Main(name, func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return serve.Run(ctx, s.options(), s.build)
	})
}

// options returns the settings of the process. It raises the limit on requests, because a request may hold a task's whole history.
func (s *settings) options() serve.Process {
	return serve.Process{Name: name, Addr: s.GRPC, Flags: s.Flags, MaxRecvBytes: planner.MaxRequestBytes}
}

func (s *settings) build(ctx context.Context, log *slog.Logger, _ *serve.Certificates) (serve.Service, error) {
	return planner.New(ctx, s.Config, planner.Deps{Log: log})
}
