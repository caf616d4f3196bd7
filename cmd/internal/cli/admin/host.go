// Package admin has the commands for models, API keys, the journal and measuring, and the one that runs the server.
package admin

import (
	"context"
	"log/slog"
	"os"
	"runtime"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/cmd/suite"
)

// Suite is everything in one process, as package suite builds it.
type Suite interface {
	Run(ctx context.Context) error
	Conn() grpc.ClientConnInterface
	GRPCAddr() string
	HTTPAddr() string
}

// Host runs servers in this process.
type Host struct {
	Version string
	// NewSuite builds a suite, which listens already and serves once Run is called; it is suite.New but in tests.
	NewSuite func(ctx context.Context, cfg suite.Config, log *slog.Logger) (Suite, error)
}

// LogLevel is what services in this process log: a level of slog, off, or default.
type LogLevel string

func (l LogLevel) logger(u *ui.UI, usual slog.Level) *slog.Logger {
	level := usual
	if l != "default" && l != "" && level.UnmarshalText([]byte(l)) != nil || l == "off" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(u.Err, &slog.HandlerOptions{Level: level}))
}

// silent is above all levels: nothing is logged.
const silent = slog.LevelError + 4

// Embed runs a suite with the settings of a plain `pawl up`, at a port of the system's choice so that other commands find it. No folder is the
// server `workspace` in it: a task that waits now may go on from a command in another folder.
func (h *Host) Embed(ctx context.Context, u *ui.UI, dataDir string, level LogLevel) (*discover.Server, error) {
	cfg := suite.Config{DataDir: dataDir, GRPCAddr: "127.0.0.1:0", Version: h.Version, Models: os.Getenv("PAWL_MODELS")}
	if err := kong.ApplyDefaults(&cfg.Executor); err != nil {
		return nil, err
	}
	s, err := h.NewSuite(ctx, cfg, level.logger(u, silent))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return &discover.Server{Kind: discover.Embedded, Addr: s.GRPCAddr(), Conn: s.Conn(), Close: func() error {
		cancel()
		return <-ended
	}}, nil
}

// VersionCmd is `pawl version`.
type VersionCmd struct{}

// Run prints the version of this program.
func (c *VersionCmd) Run(u *ui.UI, h *Host) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return u.Result(map[string]string{"version": h.Version, "go": runtime.Version(), "platform": platform}, nil,
		"pawl %s (%s, %s)", h.Version, runtime.Version(), platform)
}
