// Package admin has the commands up, keys, store, models, eval and version.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/cmd/suite"
	"pawl.dev/executor-svc/executor"
	"pawl.dev/mcppool-svc/mcppool"
	"pawl.dev/services/serve"
	"pawl.dev/services/telemetry"
)

// DefaultHTTP is the address at which `pawl up` serves REST.
const DefaultHTTP = "127.0.0.1:7410"

// UpCmd is `pawl up`.
type UpCmd struct {
	suite.Config `embed:""`
	NoWorkspace  bool `xor:"workspace" help:"Run no MCP server workspace."`

	Pool PoolFlags `embed:"" group:"pool"`
}

// PoolFlags are the pool's flags, without those that `pawl up` or the executor already defines.
type PoolFlags struct {
	mcppool.Config `embed:""`

	DataDir      struct{}      `kong:"-"`
	MCPConfigs   struct{}      `kong:"-"`
	Workspace    struct{}      `kong:"-"`
	DrainTimeout struct{}      `kong:"-"`
	Audit        struct{}      `kong:"-"`
	Drain        time.Duration `name:"pool-drain-timeout" placeholder:"DURATION" help:"Like --drain-timeout, for calls made outside tasks (0 means 7s)."`
}

// Run serves until the context ends.
func (c *UpCmd) Run(ctx context.Context, u *ui.UI, h *Host, session *discover.Session, level LogLevel) (err error) {
	serve.RelaxGC()
	serve.LimitMemory()
	startTime := u.Now()
	cfg, err := c.config(h, session.Config())
	if err != nil {
		return err
	}
	shutdown, err := telemetry.Setup(ctx, "pawl", h.Version)
	if err != nil {
		return ui.Errorf("%v", err)
	}
	defer func() { err = errors.Join(err, shutdown()) }()
	s, err := h.NewSuite(ctx, cfg, level.logger(u, slog.LevelWarn))
	if err != nil {
		return upError(cfg.DataDir, err)
	}
	if err := showUp(u, session.Flags(), cfg, s, u.Now().Sub(startTime)); err != nil {
		return err
	}
	if err := s.Run(ctx); err != nil {
		return ui.Errorf("%v", err)
	}
	if !u.JSON {
		u.Note("stopped")
	}
	return nil
}

func (c *UpCmd) config(h *Host, discovery discover.Config) (suite.Config, error) {
	cfg := c.Config
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.Version = strings.TrimSuffix(c.HTTPAddr, "none"), strings.TrimSuffix(c.GRPCAddr, "none"), h.Version
	cfg.Pool = c.Pool.Config
	cfg.Pool.DrainTimeout, cfg.Pool.Audit = c.Pool.Drain, cfg.Executor.Audit
	var err error
	if cfg.DataDir, err = discovery.Dir(); err != nil {
		return cfg, err
	}
	if discovery.Server != "" && discovery.Server != os.Getenv("PAWL_SERVER") {
		return cfg, ui.Usagef("--server is for commands that use a server, but pawl up is the server").Then("--grpc ADDR sets the address at which it listens")
	}
	if !c.NoWorkspace && c.Workspace == "" {
		cfg.Workspace, err = os.Getwd()
	}
	return cfg, err
}

// upError explains why the server could not start. If the data folder is in use, it names the process that uses it, if known.
func upError(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ui.WrapError(err, "%v", err).Then("make room on the disk of %s and start again, or use a folder on another disk with --data DIR; what was acknowledged is kept", dir)
	case !errors.Is(err, executor.ErrLocked):
		return ui.WrapError(err, "%v", err)
	}
	return inUseError(dir, err, "or use another folder with --data DIR", "use that server (pawl run finds it), stop it with kill %d, or use another folder with --data DIR")
}

// inUseError explains that another process uses the data folder. The advice is withPID, a format for the process id; if the process is unknown,
// it ends with withoutPID.
func inUseError(dir string, err error, withoutPID, withPID string) error {
	info := discover.ReadServerFile(dir)
	if info == nil {
		return ui.WrapError(err, "the data folder %s is in use by another process", dir).Then("stop that process, %s", withoutPID)
	}
	where := "gRPC " + info.GRPC
	if strings.HasPrefix(info.HTTP, "https://") {
		where += ", " + info.HTTP
	} else if info.HTTP != "" {
		where += ", http://" + info.HTTP
	}
	return ui.WrapError(err, "the data folder %s is in use by another pawl: pid %d, %s", dir, info.PID, where).Then(withPID, info.PID)
}

// showUp prints the server's addresses and some commands to try.
func showUp(u *ui.UI, flags string, cfg suite.Config, s Suite, took time.Duration) error {
	if u.JSON {
		return u.Document(discover.ServerInfo{
			PID: os.Getpid(), GRPC: cfg.Address(s.GRPCAddr()), HTTP: cfg.Address(s.HTTPAddr()), DataDir: cfg.DataDir, Workspace: cfg.Workspace, Version: cfg.Version,
		})
	}
	st := u.OutStyle()
	u.Printf("%s %s\n", st.Bold("pawl "+cfg.Version+" is up"), st.Dim("("+ui.Duration(took)+")"))
	rest := ""
	if s.HTTPAddr() != "" {
		rest = cfg.TLS.Scheme() + "://" + shown(s.HTTPAddr())
	}
	grpcAddr := shown(s.GRPCAddr())
	if cfg.TLS.Cert != "" && grpcAddr != "" {
		grpcAddr = "https://" + grpcAddr
	}
	u.Printf("%s%s%s%s", st.Field("REST", 9, rest), st.Field("gRPC", 9, grpcAddr), st.Field("data", 9, cfg.DataDir), st.Field("workspace", 9, cfg.Workspace))
	u.Printf("\n%s\n", st.Dim("try"))
	for _, line := range exampleCommands(flags, cfg, s) {
		u.Printf("  %s\n", line)
	}
	u.Printf("\n")
	return nil
}

// shown returns a listener's address as clients on this machine dial it, and says so if the listener has all addresses of this machine.
func shown(addr string) string {
	if reachable := suite.Reachable(addr); reachable != addr {
		return reachable + " (and all other addresses of this machine)"
	}
	return addr
}

// exampleCommands returns three commands that can be pasted into a shell.
func exampleCommands(flags string, cfg suite.Config, s Suite) []string {
	auth := ""
	if cfg.TLS.Cert != "" {
		flags += " --ca CA.pem"
		auth = " --cacert CA.pem"
	}
	if cfg.KeysFile != "" {
		flags += " --key KEY"
		auth += ` -H "Authorization: Bearer KEY"`
	}
	lines := []string{fmt.Sprintf(`pawl run --auto%s "Which files mention TODO?"`, flags)}
	if s.HTTPAddr() == "" {
		return append(lines, "pawl tasks"+flags, "pawl mcp tools"+flags)
	}
	url := cfg.TLS.Scheme() + "://" + suite.Reachable(s.HTTPAddr())
	return append(lines,
		fmt.Sprintf(`curl -N%s -H "Content-Type: application/json" -H "Accept: text/event-stream" -d '{"goal":"How many Go files are there?","autoExecute":true}' %s/v1/tasks:run`, auth, url),
		fmt.Sprintf("curl%s %s/v1/tasks", auth, url))
}

// Suite is a *suite.Suite, or a fake in tests.
type Suite interface {
	Run(ctx context.Context) error
	Conn() grpc.ClientConnInterface
	GRPCAddr() string
	HTTPAddr() string
}

// Host runs servers in this process.
type Host struct {
	Version string
	// NewSuite builds a suite, which listens at once and serves when Run is called. It is suite.New, except in tests.
	NewSuite func(ctx context.Context, cfg suite.Config, log *slog.Logger) (Suite, error)
}

// LogLevel is the log level of services in this process: a level of slog, "off" or "default".
type LogLevel string

func (l LogLevel) logger(u *ui.UI, byDefault slog.Level) *slog.Logger {
	level := byDefault
	if l != "default" && l != "" && level.UnmarshalText([]byte(l)) != nil { // "off"
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(u.Err, &slog.HandlerOptions{Level: level}))
}

// silent is a level above all others, which logs nothing.
const silent = slog.LevelError + 4

// Embed runs a suite with the settings of `pawl up` without flags. The suite listens on a free port, for other commands. It has no server
// `workspace`, because a command in another folder may continue a waiting task.
func (h *Host) Embed(ctx context.Context, u *ui.UI, dataDir string, level LogLevel) (*discover.Server, error) {
	cfg := suite.Config{DataDir: dataDir, GRPCAddr: "127.0.0.1:0", Version: h.Version, Models: os.Getenv("PAWL_MODELS"), OfCommand: true}
	if err := kong.ApplyDefaults(&cfg.Executor); err != nil {
		return nil, err
	}
	s, err := h.NewSuite(ctx, cfg, level.logger(u, silent))
	if err != nil {
		return nil, upError(dataDir, err)
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
