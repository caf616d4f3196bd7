// Command pawl is the one binary: it runs goals, and it is the server that runs them.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"pawl.dev/cmd/internal/cli"
	"pawl.dev/cmd/internal/console"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/suite"
	"pawl.dev/services/conf"
	"pawl.dev/services/serve"
)

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	app := &cli.App{
		Console: console.OS(),
		Version: conf.Version(),
		Signals: signals,
		Exit:    os.Exit,
		NewSuite: func(ctx context.Context, cfg suite.Config, log *slog.Logger) (cli.Suite, error) {
			return suite.New(ctx, cfg, log)
		},
		Locked: func(err error) bool { return errors.Is(err, suite.ErrLocked) },
		Dial:   func(addr, key string) (discover.Conn, error) { return serve.Dial(addr, key) },
		Edit:   console.Editor(os.Getenv),
		Browse: console.Browser(os.Getenv),
		Now:    time.Now,
	}
	os.Exit(app.Main(context.Background(), os.Args[1:]))
}
