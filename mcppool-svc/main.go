// Command mcppool-svc runs the MCP pool as a process of its own.
package main

import (
	"context"
	"log/slog"
	"os"

	"pawl.dev/services/conf"
	"pawl.dev/services/process"
	"pawl.dev/services/serve"

	"pawl.dev/mcppool-svc/mcppool"
)

const name = "mcppool-svc"

// settings are the flags; each is also an environment variable (PAWL_GRPC …) and a key of the configuration file.
type settings struct {
	GRPC           string `name:"grpc" placeholder:"ADDR" default:"127.0.0.1:7414" help:"Where to serve gRPC (${default})."`
	mcppool.Config `embed:""`
	process.Flags  `embed:""`
}

func main() {
	var s settings
	err := conf.Parse(name, "Connects to MCP servers and calls their tools: Pawl's MCP pool.", &s, os.Args[1:])
	serve.Main(name, func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return process.Run(ctx, process.Options{Name: name, Addr: s.GRPC, Flags: s.Flags}, func(ctx context.Context, log *slog.Logger) (process.Service, error) {
			return mcppool.New(ctx, s.Config, mcppool.Deps{Log: log})
		})
	})
}
