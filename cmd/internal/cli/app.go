// Package cli parses and runs the command lines of pawl, and provides their help and completion. Each command is a struct in package task,
// mcp or admin; kong fills its fields from the command line and calls its method Run.
package cli

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"pawl.dev/cmd/internal/cli/admin"
	"pawl.dev/cmd/internal/cli/chat"
	"pawl.dev/cmd/internal/cli/hooks"
	"pawl.dev/cmd/internal/cli/mcp"
	"pawl.dev/cmd/internal/cli/task"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/conf"
	"pawl.dev/services/serve"
)

// App is the program, with its access to the operating system.
type App struct {
	UI *ui.UI
	// Host runs servers in this process.
	Host admin.Host
	// Signals delivers interrupts and termination signals.
	Signals <-chan os.Signal
	// Exit is os.Exit, except in tests.
	Exit func(code int)
	// Patience is how long to wait until the server of the data folder answers; 0: the default of package discover.
	Patience time.Duration
}

// Main runs one command line and returns the exit code.
func (a *App) Main(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.UI.Signals = ui.NewSignals(a.Signals, cancel, a.Exit)
	defer a.UI.Signals.Close()
	out := &ui.FirstError{W: a.UI.Out}
	a.UI.Out = out
	err := a.run(ctx, args)
	if err == nil && out.Err != nil {
		err = fmt.Errorf("write the output: %w", out.Err)
	}
	return a.UI.Report(err)
}

func (a *App) run(ctx context.Context, args []string) error {
	var grammar Grammar
	exited := false
	parser, err := a.parser(&grammar, func(int) { exited = true })
	if err != nil {
		return fmt.Errorf("build the command line: %w", err)
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	case args[0] == completeCommand:
		return a.complete(ctx, parser.Model, args[1:])
	}
	command, err := parser.Parse(args)
	switch {
	case exited:
		return nil
	case err != nil:
		return usageError(err)
	}
	a.UI.JSON = grammar.JSON
	a.UI.Color = a.UI.Color && !grammar.NoColor
	session := a.session(&grammar.Globals)
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(a.UI, &a.Host, session, admin.LogLevel(grammar.LogLevel))
	linger(ctx, a.UI, session)
	if a.UI.LeaveNow { // close the session, but exit after leaveWithin at the latest
		defer time.AfterFunc(leaveWithin, func() { a.Exit(ui.Stopped) }).Stop()
		_ = session.Close()
		return err
	}
	return errors.Join(err, session.Close())
}

func (a *App) parser(grammar *Grammar, onExit func(int)) (*kong.Kong, error) {
	options := append(conf.Options("pawl", "Runs goals over MCP tools, step by step and durably."),
		kong.Writers(a.UI.Out, a.UI.Err),
		kong.Exit(onExit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true, WrapUpperBound: min(cmp.Or(a.UI.OutColumns(), widestHelp), widestHelp)}),
		kong.Help(printHelp),
		kong.ExplicitGroups(groups()),
		kong.Vars{"grpc": discover.DefaultGRPC, "http": admin.DefaultHTTP},
		kong.PostBuild(adjustFlags),
		kong.PostBuild(describe),
	)
	return kong.New(grammar, options...)
}

// notANumber matches the parser's message about a flag that takes a whole number.
var notANumber = regexp.MustCompile(`expected (?:a valid \d+ bit uint|uint value) but got ("[^"]*").*`)

// noFile begins the parser's message about an argument that names no file.
var noFile = regexp.MustCompile(`^<[a-z]+>: stat `)

// usageError turns an error of the parser into a usage error with the advice to see the command's help.
func usageError(err error) error {
	var inner *ui.Error
	if errors.As(err, &inner) { // a flag's value was refused with advice
		return inner
	}
	command := "pawl"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			command = node.FullPath()
		}
	}
	return ui.Usagef("%s", notANumber.ReplaceAllString(noFile.ReplaceAllString(err.Error(), ""), "$1 is negative, too large, or no whole number")).Then("%s --help", command)
}

// adjustFlags removes the environment variables of --version and of each command's own flags, except those of pawl up and pawl keys. It also
// moves --help, --config and --version to the group of the global flags.
func adjustFlags(k *kong.Kong) error {
	removeEnvs := func(flags []*kong.Flag) {
		for _, f := range flags {
			f.Envs, f.Tag.Envs = nil, nil
		}
	}
	for _, f := range k.Model.Flags {
		if f.Name == "version" {
			removeEnvs([]*kong.Flag{f})
		}
		if f.Name == "version" || f.Name == "config" || f.Name == "help" {
			f.Group = k.Model.Flags[1].Group
		}
	}
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if n, ok := node.(*kong.Node); ok && n.Name != "up" && n.Name != "keys" {
			removeEnvs(n.Flags)
		}
		return next(nil)
	})
}

// session returns a command's connection to a server. It connects at its first call, to a running server or to one inside this process.
func (a *App) session(g *Globals) *discover.Session {
	cfg := g.discovery()
	cfg.KeyFromFlag, cfg.Flags, cfg.Note, cfg.Patience = g.Key != a.UI.Getenv("PAWL_KEY"), g.flags(), a.UI.Aside, a.Patience
	cfg.Start = func(ctx context.Context, dir string) (*discover.Server, error) {
		return a.Host.Embed(ctx, a.UI, dir, admin.LogLevel(g.LogLevel))
	}
	return discover.New(cfg)
}

const (
	widestHelp  = 100 // columns
	leaveWithin = 2 * time.Second
	lookEvery   = 200 * time.Millisecond
)

// linger keeps an embedded server alive while it runs tasks, because other commands may wait for them.
func linger(ctx context.Context, u *ui.UI, s *discover.Session) {
	if !s.Embedded() || u.LeaveNow {
		return
	}
	interrupts, release := u.Signals.Take()
	defer release()
	for round := 0; ; round++ {
		list, err := s.Tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 1000, Statuses: []executorv1.ExecutorStatus{initial, running}})
		n := len(list.GetTasks())
		if err != nil || n == 0 {
			return
		}
		if round == 1 { // not in the first round: the tasks may end in a moment
			tasks := "1 task is"
			if n > 1 {
				tasks = fmt.Sprintf("%d tasks are", n)
			}
			u.Note("%s still running in this process; waiting (Ctrl-C leaves; running tasks go on with the next pawl command)", tasks)
		}
		select {
		case <-interrupts:
			u.LeaveNow = true
			return
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

// Grammar is the command line.
type Grammar struct {
	Globals

	Run      task.RunCmd     `cmd:"" group:"tasks" help:"Run a goal and show its progress."`
	Code     task.CodeCmd    `cmd:"" group:"tasks" help:"Work on a goal in a folder: plan it, change files, run its tests."`
	Chat     chat.Cmd        `cmd:"" group:"tasks" help:"Talk with agents and people in a topic."`
	Topics   chat.TopicsCmd  `cmd:"" group:"tasks" help:"Topics: conversations of people and agents."`
	Webhooks hooks.Cmd       `cmd:"" group:"tasks" help:"Webhooks: events are posted to a URL."`
	Diff     task.DiffCmd    `cmd:"" group:"tasks" help:"Show how a task changed files."`
	Undo     task.UndoCmd    `cmd:"" group:"tasks" help:"Bring files back to what they were before a task."`
	Tasks    task.TasksCmd   `cmd:"" group:"tasks" help:"List tasks."`
	Show     task.ShowCmd    `cmd:"" group:"tasks" help:"Show a task: what it waits for, its steps, its answer."`
	Watch    task.WatchCmd   `cmd:"" group:"tasks" help:"Follow a task's events."`
	Approve  task.ApproveCmd `cmd:"" group:"tasks" help:"Let a waiting step run, as shown or with an edited input."`
	Reject   task.RejectCmd  `cmd:"" group:"tasks" help:"Refuse a waiting step; its task is cancelled."`
	Params   task.ParamsCmd  `cmd:"" group:"tasks" help:"Supply the parameters that a waiting step lacks."`
	Input    task.InputCmd   `cmd:"" group:"tasks" help:"Answer a question that an MCP server asks during a call."`
	Outcome  task.OutcomeCmd `cmd:"" group:"tasks" help:"Settle a call whose outcome is unknown."`
	Pause    task.PauseCmd   `cmd:"" group:"tasks" help:"Pause a task."`
	Unpause  task.UnpauseCmd `cmd:"" group:"tasks" help:"Continue a paused task."`
	Cancel   task.CancelCmd  `cmd:"" group:"tasks" help:"Cancel a task."`
	Fork     task.ForkCmd    `cmd:"" group:"tasks" help:"Start a new task from a step of an old one."`
	Export   task.ExportCmd  `cmd:"" group:"tasks" help:"Write everything about a task as JSON."`
	Delete   task.DeleteCmd  `cmd:"" group:"tasks" help:"Delete tasks that have ended."`

	MCP      mcp.Cmd          `cmd:"" name:"mcp" group:"config" help:"MCP servers and their tools."`
	Agents   task.AgentsCmd   `cmd:"" group:"config" help:"Agents: named settings that tasks run with."`
	Models   admin.ModelsCmd  `cmd:"" group:"config" help:"List the models that plan tasks or answer MCP servers."`
	Playbook task.PlaybookCmd `cmd:"" group:"config" help:"Playbooks: steps that a person wrote."`
	Eval     admin.EvalCmd    `cmd:"" group:"config" help:"Measure how well a model plans the cases of a file."`

	Up         admin.UpCmd      `cmd:"" group:"server" help:"Run the server: gRPC and REST, all in one process."`
	Certs      admin.CertsCmd   `cmd:"" group:"server" help:"Certificates for TLS on this machine."`
	Keys       admin.KeysCmd    `cmd:"" group:"server" help:"API keys of a server."`
	Login      admin.LoginCmd   `cmd:"" group:"server" help:"Log in to a server with an OpenID Connect issuer."`
	Logout     admin.LogoutCmd  `cmd:"" group:"server" help:"Forget the login to a server."`
	Whoami     admin.WhoamiCmd  `cmd:"" group:"server" help:"Show as which user a server knows you."`
	Store      admin.StoreCmd   `cmd:"" group:"server" help:"The journal of the data folder: sizes, compaction, checks."`
	Version    admin.VersionCmd `cmd:"" group:"server" help:"Print the version."`
	Completion CompletionCmd    `cmd:"" group:"server" help:"Print a shell's completion script."`
}

func groups() []kong.Group {
	return []kong.Group{
		{Key: "tasks", Title: "Tasks:"},
		{Key: "config", Title: "What tasks work with:"},
		{Key: "server", Title: "Server and program:"},
		{Key: "tls", Title: "TLS:"},
		{Key: "limits", Title: "How tasks run:"},
		{Key: "clients", Title: "What clients may use:"},
		{Key: "pool", Title: "MCP servers and tool calls:"},
		{Key: "sub", Title: "Commands:"},
		{Key: "global", Title: "Flags of all commands:"},
	}
}

// Globals are the flags of every command.
type Globals struct {
	Server   string `group:"global" placeholder:"ADDR" help:"Use the server at this gRPC address instead of this machine's own. If Pawl runs as separate processes, this is the executor's address."`
	Pool     string `group:"global" placeholder:"ADDR" help:"Address of the MCP pool (default: --server, or else port 7414 of that host). For several replicas: a comma-separated list, or dns:///name:port."`
	Planner  string `group:"global" placeholder:"ADDR" help:"Address of the planner (default: --server, or else port 7413 of that host)."`
	Key      string `group:"global" placeholder:"KEY" help:"API key for the server."`
	CA       string `group:"global" name:"ca" type:"path" placeholder:"FILE" help:"Certificate authorities (PEM) of the server: the connection uses TLS. For those of the system, write the address as https://HOST:PORT."`
	Cert     string `group:"global" name:"client-cert" type:"path" placeholder:"FILE" help:"Certificate (PEM) for a server that requires one."`
	CertKey  string `group:"global" name:"client-key" type:"path" placeholder:"FILE" help:"Private key (PEM) of --client-cert."`
	Data     string `group:"global" type:"path" placeholder:"DIR" help:"Data folder (default: ~/.local/state/pawl)."`
	JSON     bool   `group:"global" name:"json" env:"-" help:"Print JSON: one document, or one object per line for streams."`
	NoColor  bool   `group:"global" name:"no-color" env:"-" help:"No colours (as with NO_COLOR)."`
	LogLevel string `group:"global" enum:"debug,info,warn,error,off,default" default:"default" placeholder:"LEVEL" help:"Log level of the services in this process: debug, info, warn, error or off (default: warn in pawl up, else off)."`
}

// discovery returns which running server is meant.
func (g *Globals) discovery() discover.Config {
	cfg := discover.Config{Server: g.Server, Parts: g.parts(), DataDir: g.Data, TLS: serve.TLS{Cert: g.Cert, Key: g.CertKey, CA: g.CA}, Key: g.Key}
	if g.Key == "" {
		cfg.Login, _ = discover.CredentialsFor(g.Server) // if it cannot be read, the server asks for a credential
	}
	if g.Data == "" { // --data means the server of that folder and no other
		cfg.Fallback = discover.DefaultGRPC
	}
	return cfg
}

// parts returns the addresses of the executor, planner and pool, in case they are separate processes: the flag's address, or else the default
// port on the host of --server.
func (g *Globals) parts() map[string]discover.Part {
	if g.Server == "" {
		return nil
	}
	addr := strings.TrimPrefix(g.Server, "https://")
	scheme := strings.TrimSuffix(g.Server, addr)
	host, _, err := net.SplitHostPort(strings.TrimSuffix(addr, "/"))
	all := map[string]discover.Part{}
	for pkg, p := range map[string]struct{ name, addr, port string }{
		"pawl.executor.v1": {"executor", "", "7412"}, "pawl.planner.v1": {"planner", g.Planner, "7413"}, "pawl.mcppool.v1": {"MCP pool", g.Pool, "7414"},
	} {
		switch {
		case p.addr != "":
			all[pkg] = discover.Part{Name: p.name, Addr: scheme + strings.TrimPrefix(p.addr, scheme), Given: true}
		case err == nil:
			all[pkg] = discover.Part{Name: p.name, Addr: scheme + net.JoinHostPort(host, p.port)}
		}
	}
	return all
}

// flags returns the flags with which another command line reaches the same server; "" or beginning with a space.
func (g *Globals) flags() string {
	flags := ""
	add := func(flag, value, env string) {
		if value != "" && value != os.Getenv(env) {
			flags += " --" + flag + " " + value
		}
	}
	if g.Server != "" {
		add("server", g.Server, "PAWL_SERVER")
		add("pool", g.Pool, "PAWL_POOL")
		add("planner", g.Planner, "PAWL_PLANNER")
	}
	add("ca", g.CA, "PAWL_CA")
	add("client-cert", g.Cert, "PAWL_CLIENT_CERT")
	add("client-key", g.CertKey, "PAWL_CLIENT_KEY")
	if env := os.Getenv("PAWL_DATA"); g.Data != "" && g.Data != env {
		if abs, err := filepath.Abs(env); env == "" || err != nil || abs != g.Data {
			flags += fmt.Sprintf(" --data %q", g.Data)
		}
	}
	return flags
}

// helpFile holds the long help of each command after a line `-- command --`.
//
//go:embed help.txt
var helpFile string

// describe sets the long help of each command.
func describe(k *kong.Kong) error {
	texts := map[string]string{}
	for section := range strings.SplitSeq("\n"+helpFile, "\n-- ") {
		name, text, _ := strings.Cut(section, " --\n")
		texts["pawl "+name] = strings.TrimSpace(text)
	}
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if n, ok := node.(*kong.Node); ok && n.Type == kong.CommandNode {
			path, _, _ := strings.Cut(n.FullPath(), " (") // the command's aliases
			n.Detail = texts[path]
		}
		return next(nil)
	})
}

// printHelp prints a command's help, with only the names of the global flags, which pawl --help explains.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	var names []string
	for _, f := range ctx.Model.Flags {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
			f.Hidden = true
			defer func() { f.Hidden = false }()
		}
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\nGlobal flags (explained by pawl --help):\n  %s\n", ui.Wrap(strings.Join(names, " "), options.WrapUpperBound, 2, 2))
	return err
}
