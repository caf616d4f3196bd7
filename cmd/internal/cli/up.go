package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	"pawl.dev/cmd/internal/serverfile"
	"pawl.dev/cmd/suite"
	"pawl.dev/executor-svc/executor"
	"pawl.dev/mcppool-svc/mcppool"
	"pawl.dev/services/serve"
	"pawl.dev/services/telemetry"
)

// UpCmd is `pawl up`.
type UpCmd struct {
	HTTP        string   `name:"http" default:"${http}" placeholder:"ADDR" help:"Where REST listens (default ${default}); none: nowhere."`
	GRPC        string   `name:"grpc" default:"${grpc}" placeholder:"ADDR" help:"Where gRPC listens (default ${default}); none: nowhere."`
	MCPConfig   []string `name:"mcp-config" sep:"none" type:"existingfile" placeholder:"FILE" help:"File with MCP servers in the mcpServers format (repeatable)."`
	Keys        string   `type:"path" placeholder:"FILE" help:"File of hashed API keys (pawl keys add); without, everyone on this machine may do everything."`
	Workspace   string   `type:"existingdir" placeholder:"DIR" help:"Folder of the built-in MCP server workspace (default: the current one)."`
	NoWorkspace bool     `help:"Run no MCP server workspace."`
	Model       string   `placeholder:"NAME" help:"The model that plans where nothing else is said."`
	Models      string   `type:"path" placeholder:"FILE" help:"File of named language models (YAML or JSON), which MCP servers may ask that have sampling."`
	AllowHost   []string `sep:"none" placeholder:"NAME" help:"Host name under which REST may be reached (repeatable)."`
	AllowOrigin []string `sep:"none" placeholder:"ORIGIN" help:"Web origin whose pages may call REST (repeatable)."`

	Executor executor.Config `embed:"" group:"limits"`
	DataDir  struct{}        `kong:"-"` // of Executor: --data is the whole program's

	Pool PoolFlags `embed:"" group:"pool"`
}

// PoolFlags are the pool's settings that neither this command nor the executor has a flag of that name for.
type PoolFlags struct {
	mcppool.Config `embed:""`

	DataDir      struct{}      `kong:"-"`
	MCPConfigs   struct{}      `kong:"-"`
	Workspace    struct{}      `kong:"-"`
	DrainTimeout struct{}      `kong:"-"`
	Drain        time.Duration `name:"pool-drain-timeout" placeholder:"DURATION" help:"As --drain-timeout, of calls that no task makes; 7s where 0."`
}

func (f PoolFlags) config() mcppool.Config {
	cfg := f.Config
	cfg.DrainTimeout = f.Drain
	return cfg
}

// Help is shown by --help.
func (UpCmd) Help() string {
	return `Runs until it is interrupted (SIGINT, SIGTERM): then running tool calls finish and are recorded, and tasks go on at the next
start. The flags may also stand in a YAML file (--config) or in the environment (PAWL_HTTP …).

Examples:

    pawl up
    pawl up --workspace ~/src/app --mcp-config mcp.json --audit audit.jsonl
    pawl up --keys keys.yaml --http 0.0.0.0:7410 --grpc 0.0.0.0:7411 --allow-host pawl.example.com`
}

// none as an address: do not listen.
const none = "none"

// Run serves until the context ends.
func (c *UpCmd) Run(ctx context.Context, a *App, g *Globals) (err error) {
	serve.RelaxGC()
	began := a.Now()
	cfg, err := c.config(a, g)
	if err != nil {
		return err
	}
	shutdown, err := telemetry.Setup(ctx, "pawl", a.Version)
	if err != nil {
		return exit.Newf("%v", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, shutdown(ctx))
	}()
	log := a.logger(cmp.Or(g.LogLevel, "warn"))
	s, err := a.NewSuite(ctx, cfg, log)
	if err != nil {
		return a.upError(cfg.DataDir, err)
	}
	if err := a.showUp(g, cfg, s, a.Now().Sub(began)); err != nil {
		return err
	}
	if err := s.Run(ctx); err != nil {
		return exit.Newf("%v", err)
	}
	if !g.JSON {
		a.note("stopped")
	}
	return nil
}

func (c *UpCmd) config(a *App, g *Globals) (suite.Config, error) {
	cfg := suite.Config{
		MCPConfigs: c.MCPConfig, KeysFile: c.Keys, DefaultModel: c.Model, Models: c.Models, Executor: c.Executor, Pool: c.Pool.config(), Version: a.Version,
		AllowHosts: c.AllowHost, AllowOrigins: c.AllowOrigin, Workspace: c.Workspace,
		HTTPAddr: listenAddr(c.HTTP), GRPCAddr: listenAddr(c.GRPC),
	}
	var err error
	if cfg.DataDir, err = g.dataDir(); err != nil {
		return cfg, err
	}
	if g.Server != "" && g.Server != os.Getenv("PAWL_SERVER") {
		return cfg, exit.Usagef("--server is for commands that use a server; this one is a server").Then("--grpc ADDR says where it listens")
	}
	switch {
	case c.NoWorkspace && c.Workspace != "":
		return cfg, exit.Usagef("--workspace and --no-workspace exclude each other").Then("leave one of them out")
	case !c.NoWorkspace && c.Workspace == "":
		cfg.Workspace, err = os.Getwd()
	}
	return cfg, err
}

func listenAddr(addr string) string {
	if addr == none {
		return ""
	}
	return addr
}

// upError explains why the server could not start; a data folder in use is explained by who uses it.
func (a *App) upError(dir string, err error) error {
	if !a.Locked(err) {
		return exit.Newf("%v", err)
	}
	inUse, pid := a.inUse(dir, err)
	if pid == 0 {
		return inUse.Then("stop that process, or use another folder with --data DIR")
	}
	return inUse.Then("use that one (pawl run finds it), stop it with kill %d, or use another folder with --data DIR", pid)
}

// inUse says who has a data folder; the pid is 0 where that is not known.
func (a *App) inUse(dir string, err error) (*exit.Error, int) {
	info := serverfile.Read(dir)
	if info == nil {
		return exit.Wrap(err, "the data folder %s is in use by another process", dir), 0
	}
	where := "gRPC " + info.GRPC
	if info.HTTP != "" {
		where += ", http://" + info.HTTP
	}
	return exit.Wrap(err, "the data folder %s is in use by another pawl: pid %d, %s", dir, info.PID, where), info.PID
}

// upView is what --json prints once the server listens.
type upView struct {
	PID       int    `json:"pid"`
	GRPC      string `json:"grpc,omitempty"`
	HTTP      string `json:"http,omitempty"`
	Data      string `json:"data"`
	Workspace string `json:"workspace,omitempty"`
	Version   string `json:"version"`
}

// showUp says where the server listens and what to try.
func (a *App) showUp(g *Globals, cfg suite.Config, s Suite, took time.Duration) error {
	if g.JSON {
		return render.JSONValue(a.Console.Out, upView{
			PID: os.Getpid(), GRPC: s.GRPCAddr(), HTTP: s.HTTPAddr(), Data: cfg.DataDir, Workspace: cfg.Workspace, Version: a.Version,
		})
	}
	st := a.outStyle()
	a.printf("%s %s\n", st.Bold("pawl "+a.Version+" is up"), st.Dim("("+render.Duration(took)+")"))
	row := func(name, value string) {
		if value != "" {
			a.printf("  %s %s\n", st.Dim(fmt.Sprintf("%-9s", name)), value)
		}
	}
	if s.HTTPAddr() != "" {
		row("REST", "http://"+s.HTTPAddr())
	}
	row("gRPC", s.GRPCAddr())
	row("data", cfg.DataDir)
	row("workspace", cfg.Workspace)
	a.printf("\n%s\n", st.Dim("try"))
	for _, line := range tryNext(g, cfg, s) {
		a.printf("  %s\n", line)
	}
	a.printf("\n")
	return nil
}

// tryNext are three commands that work as they stand.
func tryNext(g *Globals, cfg suite.Config, s Suite) []string {
	flags, auth := g.again(), ""
	if cfg.KeysFile != "" {
		flags += " --key KEY"
		auth = ` -H "Authorization: Bearer KEY"`
	}
	lines := []string{fmt.Sprintf(`pawl run --auto%s "Which files mention TODO?"`, flags)}
	if s.HTTPAddr() == "" {
		return append(lines, "pawl tasks"+flags, "pawl mcp tools"+flags)
	}
	url := "http://" + reachable(s.HTTPAddr())
	return append(lines,
		fmt.Sprintf(`curl -N%s -H "Content-Type: application/json" -H "Accept: text/event-stream" -d '{"goal":"How many Go files are there?","autoExecute":true}' %s/v1/tasks:run`, auth, url),
		fmt.Sprintf("curl%s %s/v1/tasks", auth, url))
}

// reachable is an address to call where the one that is listened on stands for all.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
