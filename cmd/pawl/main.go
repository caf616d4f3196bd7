// Command pawl is the command line and the server of Pawl in one binary.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"pawl.dev/cmd/internal/cli"
	"pawl.dev/cmd/internal/cli/admin"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/cmd/suite"
	"pawl.dev/services/conf"
)

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	app := &cli.App{
		UI: ui.OS(),
		Host: admin.Host{
			Version: conf.Version(),
			NewSuite: func(ctx context.Context, cfg suite.Config, log *slog.Logger) (admin.Suite, error) {
				return suite.New(ctx, cfg, log)
			},
		},
		Signals: signals,
		Exit:    os.Exit,
	}
	os.Exit(app.Main(context.Background(), os.Args[1:]))
}
